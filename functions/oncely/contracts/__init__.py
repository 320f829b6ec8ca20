"""What a job type declares, and what it may use."""
