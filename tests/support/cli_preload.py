"""What `forked_cli` does once before it forks: imports, and parsing what every command uses."""

import gc
import importlib
import pkgutil
from typing import Final

import boto3
from pydantic import BaseModel

import oncely
import tests.support.parsed_once  # noqa: F401  # imported for its effect

_SERVICES: Final = (
    *("cloudformation", "cloudwatch", "dynamodb", "lambda", "s3", "secretsmanager", "sqs"),
    *("stepfunctions", "sts"),
)
_SDKS: Final = ("braintree",)
_PACKAGES: Final = (
    "aws",
    "cli",
    "contracts",
    "core",
    "enqueue",
    "operate",
    "providers",
    "reconcile",
)


def _import_code() -> None:
    for sdk in _SDKS:
        importlib.import_module(sdk)
    for package in _PACKAGES:
        for found in pkgutil.walk_packages(
            importlib.import_module(f"oncely.{package}").__path__, f"oncely.{package}."
        ):
            if "sandbox" not in found.name:
                importlib.import_module(found.name)


def _build_models(model: type[BaseModel]) -> None:
    """Build the validators that pydantic defers to their first use."""
    for one in model.__subclasses__():
        if one.__module__.startswith(f"{oncely.__name__}."):
            one.model_rebuild()
        _build_models(one)


def _load_services() -> None:
    for service in _SERVICES:
        boto3.client(
            service, region_name="us-east-1", aws_access_key_id="-", aws_secret_access_key="-"
        )


_import_code()
_build_models(BaseModel)
_load_services()
# A collection in a forked process would copy the memory that it shares with this one.
gc.collect()
gc.freeze()
