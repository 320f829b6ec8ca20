"""The worker of one queue."""

from oncely import lambda_init

lambda_init.begin()
