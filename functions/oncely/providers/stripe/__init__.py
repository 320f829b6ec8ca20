"""Stripe: `STRIPE` is the plug-in that jobs name."""

from oncely.providers.stripe.plugin import STRIPE

__all__ = ["STRIPE"]
