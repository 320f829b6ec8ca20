"""The consumer of the job table's stream."""
