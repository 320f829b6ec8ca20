"""The Lambda entry points: each parses its event, calls one service and responds."""

from oncely import lambda_init

lambda_init.begin()
