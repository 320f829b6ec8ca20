"""Stripe. Jobs name its plug-in `STRIPE` in their resources."""

from oncely.providers.stripe.plugin import STRIPE

__all__ = ["STRIPE"]
