"""A step of the reconciler: what it did."""

from oncely import lambda_init

lambda_init.begin()
