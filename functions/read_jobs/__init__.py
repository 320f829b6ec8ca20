"""The support view: the page, and what it reads."""

from oncely import lambda_init

lambda_init.begin()
