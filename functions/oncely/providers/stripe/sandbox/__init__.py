"""A Stripe on this machine, for tests and the demo."""
