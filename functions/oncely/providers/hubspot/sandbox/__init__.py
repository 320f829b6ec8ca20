"""A HubSpot on this machine, for tests and the demo."""
