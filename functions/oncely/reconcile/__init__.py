"""Finds due jobs, looks them up at the provider and records the outcomes."""
