"""The admin page and its HTTP API."""
