"""HubSpot: `HUBSPOT` is the plug-in that jobs name."""

from oncely.providers.hubspot.plugin import HUBSPOT

__all__ = ["HUBSPOT"]
