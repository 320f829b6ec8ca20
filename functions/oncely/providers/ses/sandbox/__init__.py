"""An SES on this machine, for tests and the demo."""
