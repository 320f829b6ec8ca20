"""Braintree. `jobs/payment_providers.py` names its plug-in `BRAINTREE`."""

from oncely.providers.braintree.plugin import BRAINTREE

__all__ = ["BRAINTREE"]
