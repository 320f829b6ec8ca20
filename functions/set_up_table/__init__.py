"""The function that gives a new job table its identity."""
