"""A sandbox of SES's API for tests and the demo."""
