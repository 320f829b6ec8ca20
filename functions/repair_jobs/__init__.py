"""The support view: what operators change."""

from oncely import lambda_init

lambda_init.begin()
