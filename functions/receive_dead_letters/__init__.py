"""The consumer of the dead letter queue."""
