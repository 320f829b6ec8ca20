"""A step of the reconciler: a person is told."""

from oncely import lambda_init

lambda_init.begin()
