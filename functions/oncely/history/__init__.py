"""What jobs went through: lines in S3, gaps, erasure and restore."""
