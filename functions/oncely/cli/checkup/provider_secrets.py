"""Whether each provider has a key and HubSpot accepts its own; no key is ever shown."""

from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from oncely.aws.errors import error_code
from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed, warned
from oncely.cli.stack_connection import StackConnection
from oncely.provider import ApiKeyCheck
from oncely.settings import pascal_case

# How Stripe's keys begin; a value that does not is most likely a mistake. HubSpot's have no common
# beginning, since service keys replace private apps: HubSpot itself is asked.
_KEY_PREFIXES: Final = {"stripe": ("sk_", "rk_")}
_TEST_KEY_PREFIXES: Final = ("sk_test_", "rk_test_")


def check_provider_secrets(deployed: DeployedStack) -> Iterator[Finding]:
    """Each secret that the contracts name."""
    client = deployed.connection.client("secretsmanager")
    for name in deployed.secret_names:
        if arn := deployed.connection.outputs.get(f"{pascal_case(name)}SecretArn"):
            yield _check_secret(client, deployed.connection, name, arn)


def _check_secret(client: Any, connection: StackConnection, name: str, arn: str) -> Finding:  # noqa: ANN401  # boto3's client
    check = f"key of {name}"
    fix = f"aws secretsmanager put-secret-value --secret-id {arn} --secret-string …"
    try:
        value = client.get_secret_value(SecretId=arn).get("SecretString") or ""
    except ClientError as error:
        if error_code(error) == "ResourceNotFoundException":
            return failed(check, "it was never put in: no job of it can run", fix)
        if not error_code(error).startswith("AccessDenied"):
            raise
        there = client.describe_secret(SecretId=arn).get("VersionIdsToStages")
        if there:
            return passed(check, "there is one, which you may not read")
        return failed(check, "it was never put in: no job of it can run", fix)
    return _check_value(check, connection, name, value.strip(), fix)


def _check_value(
    check: str, connection: StackConnection, name: str, value: str, fix: str
) -> Finding:
    if not value:
        return failed(check, "it is empty: no job of it can run", fix)
    if not (value.isascii() and value.isprintable()):
        message = "it holds a line break or a character that no API key has: no job of it can run"
        return failed(check, message, fix)
    beginnings = _KEY_PREFIXES.get(name, ("",))
    if not value.startswith(beginnings):
        return failed(check, f"it does not begin with {' or '.join(beginnings)}", fix)
    if connection.name.endswith("-prod") and value.startswith(_TEST_KEY_PREFIXES):
        return warned(check, "it is a key for tests, in production", fix)
    match connection.check_api_key(name, value):
        case ApiKeyCheck(accepted=True):
            return passed(check, "HubSpot accepts it")
        case ApiKeyCheck(accepted=False, reason=reason):
            return failed(check, f"HubSpot rejects it: {reason}", fix)
        case ApiKeyCheck(reason=reason):
            return warned(check, f"HubSpot could not be asked about it: {reason}")
        case None:
            return passed(check, "there is one")
