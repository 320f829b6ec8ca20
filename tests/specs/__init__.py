"""The vendors' published descriptions of their APIs, in one notation."""
