"""Amazon SES. Jobs name its plug-in `SES` in their resources."""

from oncely.providers.ses.plugin import SES

__all__ = ["SES"]
