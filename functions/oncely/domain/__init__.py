"""The pure core: no clock, no environment, no SDK."""
