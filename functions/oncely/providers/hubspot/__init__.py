"""HubSpot. Jobs name its plug-in `HUBSPOT` in their resources."""

from oncely.providers.hubspot.plugin import HUBSPOT

__all__ = ["HUBSPOT"]
