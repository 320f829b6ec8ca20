"""Secrets Manager: provider keys, read when first needed and again every few minutes."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from oncely.domain.errors import NotConfiguredError

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

# A rotated key is picked up within this time, without a deployment.
SECRET_CACHE_TTL: Final = timedelta(minutes=5)


def cached_secret_reader(client: "SecretsManagerClient") -> Callable[[str], str]:
    """A function that reads a secret by its name or ARN."""
    found: dict[str, tuple[str, float]] = {}

    def read(secret_id: str) -> str:
        value, until = found.get(secret_id, ("", 0.0))
        if time.time() < until:
            return value
        key = fetch(secret_id)
        found[secret_id] = key, time.time() + SECRET_CACHE_TTL.total_seconds()
        return key

    def fetch(secret_id: str) -> str:
        try:
            value = client.get_secret_value(SecretId=secret_id).get("SecretString", "")
        except (BotoCoreError, ClientError) as error:
            raise NotConfiguredError(
                f"secret {secret_id!r} cannot be read: create it and put the key in ({error})"
            ) from error
        if not value.strip():
            raise NotConfiguredError(f"secret {secret_id!r} is empty: put the provider's key in")
        key = value.strip()
        if not (key.isascii() and key.isprintable()):
            # It would break the request's header, which looks like a lost answer later on.
            raise NotConfiguredError(
                f"secret {secret_id!r} holds a line break or a character that no API key has: "
                "put the provider's key in again"
            )
        return key

    return read
