"""The worker of one queue."""
