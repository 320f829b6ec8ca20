"""A sandbox of Stripe's API for tests and the demo."""
