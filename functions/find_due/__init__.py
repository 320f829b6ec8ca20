"""A step of the reconciler: what is due."""

from oncely import lambda_init

lambda_init.begin()
