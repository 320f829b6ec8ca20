"""Finds what is due, looks it up at the provider and records what it finds."""
