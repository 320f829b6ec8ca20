"""A sandbox of HubSpot's API for tests and the demo."""
