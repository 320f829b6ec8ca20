"""A step of the reconciler: one job."""
