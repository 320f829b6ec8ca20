"""The consumer of the job table's stream."""

from oncely import lambda_init

lambda_init.begin()
