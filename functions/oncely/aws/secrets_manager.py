"""Secrets Manager: provider keys, read when first needed and again every few minutes."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import translated
from oncely.core.errors import NotConfiguredError

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

# A rotated key is picked up within this time, without a deployment.
SECRET_CACHE_TTL: Final = timedelta(minutes=5)


def cached_secret_reader(client: "SecretsManagerClient") -> Callable[[str, str], str]:
    """A function that reads a secret: by its name or ARN, and what errors call it."""
    found: dict[str, tuple[str, float]] = {}

    def read(secret_id: str, secret: str) -> str:
        value, until = found.get(secret_id, ("", 0.0))
        if time.time() < until:
            return value
        key = fetch(secret_id, secret)
        found[secret_id] = key, time.time() + SECRET_CACHE_TTL.total_seconds()
        return key

    def fetch(secret_id: str, secret: str) -> str:
        check = "that it exists, that it holds the key and that this role may read it"
        with translated(secret, name=secret_id, check=check):
            value = client.get_secret_value(SecretId=secret_id).get("SecretString", "")
        if not value.strip():
            raise NotConfiguredError(f"{secret} is empty: store the API key in it")
        key = value.strip()
        if not (key.isascii() and key.isprintable()):
            # It would break the request's header, which would look like a lost response.
            raise NotConfiguredError(
                f"{secret} contains a line break or an invalid character: store the API key again"
            )
        return key

    return read
