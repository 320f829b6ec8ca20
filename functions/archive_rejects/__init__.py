"""The consumer of the rejects queue."""

from oncely import lambda_init

lambda_init.begin()
