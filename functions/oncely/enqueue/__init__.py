"""Writes the row of a job before its message is sent."""
