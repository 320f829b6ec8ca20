"""The consumer of the job table's stream that writes the history."""

from oncely import lambda_init

lambda_init.begin()
