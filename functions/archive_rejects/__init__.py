"""The consumer of the rejects queue."""
