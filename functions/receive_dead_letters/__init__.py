"""The consumer of the dead letter queue."""

from oncely import lambda_init

lambda_init.begin()
