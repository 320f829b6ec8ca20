"""Sends what an ended job owes, and archives the history of every job."""
