"""The Lambda entry points: each parses its event, calls one service and responds."""

from oncely.handlers import lambda_init

lambda_init.begin()
