"""A step of the reconciler: what it did."""
