"""A step of the reconciler: one job."""

from oncely import lambda_init

lambda_init.begin()
