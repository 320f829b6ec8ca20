"""Checks the API key of each provider. Never prints a key."""

from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from oncely.aws.errors import error_code
from oncely.cli.health_checks.deployed import DeployedStack
from oncely.cli.health_checks.findings import Finding, failed, passed, warned
from oncely.cli.stack_connection import StackConnection
from oncely.provider import ApiKeyCheck
from oncely.settings import pascal_case

# Stripe's keys have known prefixes. HubSpot's have none, so HubSpot checks its own.
_KEY_PREFIXES: Final = {"stripe": ("sk_", "rk_")}
_TEST_KEY_PREFIXES: Final = ("sk_test_", "rk_test_")
_NOT_SET: Final = "not set: its jobs cannot run"


def check_provider_secrets(deployed: DeployedStack) -> Iterator[Finding]:
    """Check each secret that the contracts name."""
    client = deployed.connection.client("secretsmanager")
    for name in deployed.secret_names:
        if arn := deployed.connection.outputs.get(f"{pascal_case(name)}SecretArn"):
            yield _check_secret(client, deployed.connection, name, arn)


def _check_secret(client: Any, connection: StackConnection, name: str, arn: str) -> Finding:  # noqa: ANN401  # boto3's client
    check = f"API key of {name}"
    fix = f"aws secretsmanager put-secret-value --secret-id {arn} --secret-string …"
    try:
        value = client.get_secret_value(SecretId=arn).get("SecretString") or ""
    except ClientError as error:
        if error_code(error) == "ResourceNotFoundException":
            return failed(check, _NOT_SET, fix)
        if not error_code(error).startswith("AccessDenied"):
            raise
        there = client.describe_secret(SecretId=arn).get("VersionIdsToStages")
        if there:
            return passed(check, "set (you do not have permission to read it)")
        return failed(check, _NOT_SET, fix)
    return _check_value(check, connection, name, value.strip(), fix)


def _check_value(
    check: str, connection: StackConnection, name: str, value: str, fix: str
) -> Finding:
    if not value:
        return failed(check, _NOT_SET, fix)
    if not (value.isascii() and value.isprintable()):
        message = "contains a line break or an invalid character: its jobs cannot run"
        return failed(check, message, fix)
    prefixes = _KEY_PREFIXES.get(name, ("",))
    if not value.startswith(prefixes):
        return failed(check, f"does not begin with {' or '.join(prefixes)}", fix)
    if connection.name.endswith("-prod") and value.startswith(_TEST_KEY_PREFIXES):
        return warned(check, "a test key is used in production", fix)
    match connection.check_api_key(name, value):
        case ApiKeyCheck(accepted=True):
            return passed(check, "HubSpot accepts it")
        case ApiKeyCheck(accepted=False, reason=reason):
            return failed(check, f"HubSpot rejects it: {reason}", fix)
        case ApiKeyCheck(reason=reason):
            return warned(check, f"HubSpot could not check it: {reason}")
        case None:
            return passed(check, "set")
