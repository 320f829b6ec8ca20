"""A step of the reconciler: what is due."""
