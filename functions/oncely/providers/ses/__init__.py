"""Amazon SES: `SES` is the plug-in that jobs name."""

from oncely.providers.ses.plugin import SES

__all__ = ["SES"]
