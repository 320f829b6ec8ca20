"""A step of the reconciler: a person is told."""
