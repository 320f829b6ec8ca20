"""Many attempts, one real outcome: background jobs that move money or data on AWS."""
