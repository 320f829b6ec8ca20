"""Checks the API key and the health of each provider. Never prints a key."""

from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from oncely.aws.errors import error_code
from oncely.cli.health_checks.deployed import DeployedStack
from oncely.cli.stack_connection import StackConnection
from oncely.health import Finding, failed, passed, warned
from oncely.provider import AnyProvider, ApiKeyCheck, ProviderAccess
from oncely.settings import pascal_case

_NOT_SET: Final = "not set: its jobs cannot run"


def check_secrets(deployed: DeployedStack) -> Iterator[Finding]:
    """Check each secret that the contracts name."""
    client = deployed.connection.client("secretsmanager")
    # Of several plug-ins with one secret, the one that it is named after knows its prefixes.
    named_last = sorted(deployed.providers, key=lambda plugin: plugin.name == plugin.secret_name)
    plugins = {plugin.secret_name: plugin for plugin in named_last}
    for name in deployed.secret_names:
        if arn := deployed.connection.outputs.get(f"{pascal_case(name)}SecretArn"):
            yield _check_secret(client, deployed.connection, name, arn, plugins.get(name))


def check_providers(deployed: DeployedStack) -> Iterator[Finding]:
    """Run each provider's own checks. The local sandbox has nothing to check."""
    connection = deployed.connection
    if connection.is_local:
        return
    for plugin in deployed.providers:
        access = ProviderAccess(
            settings=connection.provider_settings(plugin), new_aws_client=connection.client
        )
        yield from plugin.check_health(access, is_production=_is_production(connection))


def _check_secret(
    client: Any,  # noqa: ANN401  # boto3's client
    connection: StackConnection,
    name: str,
    arn: str,
    plugin: AnyProvider | None,
) -> Finding:
    check = f"API key of {name}"
    fix = f"aws secretsmanager put-secret-value --secret-id {arn} --secret-string …"
    try:
        value = client.get_secret_value(SecretId=arn).get("SecretString") or ""
    except ClientError as error:
        if error_code(error) == "ResourceNotFoundException":
            return failed(check, _NOT_SET, fix)
        if not error_code(error).startswith("AccessDenied"):
            raise
        if client.describe_secret(SecretId=arn).get("VersionIdsToStages"):
            return passed(check, "set (you do not have permission to read it)")
        return failed(check, _NOT_SET, fix)
    if not (value := value.strip()):
        return failed(check, _NOT_SET, fix)
    if not (value.isascii() and value.isprintable()):
        message = "contains a line break or an invalid character: its jobs cannot run"
        return failed(check, message, fix)
    return passed(check, "set") if plugin is None else _check_key(connection, plugin, value, fix)


def _check_key(connection: StackConnection, plugin: AnyProvider, value: str, fix: str) -> Finding:
    check, provider = f"API key of {plugin.secret_name}", plugin.profile.name
    prefixes = plugin.api_key_prefixes
    if not value.startswith(prefixes):
        return failed(check, f"does not begin with {' or '.join(prefixes)}", fix)
    if _is_production(connection) and value.startswith(plugin.test_key_prefixes):
        return warned(check, "a test key is used in production", fix)
    match connection.check_api_key(plugin, value):
        case ApiKeyCheck(accepted=True):
            return passed(check, f"{provider} accepts it")
        case ApiKeyCheck(accepted=False, reason=reason):
            return failed(check, f"{provider} rejects it: {reason}", fix)
        case ApiKeyCheck(reason=reason):
            return warned(check, f"{provider} could not check it: {reason}")
        case None:
            return passed(check, "set")


def _is_production(connection: StackConnection) -> bool:
    return connection.name.endswith("-prod")
