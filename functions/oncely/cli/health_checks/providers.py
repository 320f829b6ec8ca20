"""Checks the API key and the health of each provider. Never prints a key."""

from collections.abc import Iterator
from typing import Any, Final

from oncely.cli.health_checks.deployed import DeployedStack
from oncely.cli.stack_connection import StackConnection
from oncely.contracts.settings import pascal_case
from oncely.core.aws_errors import AWS_ERRORS, error_code
from oncely.plugins.health import Finding, failed, passed, warned
from oncely.plugins.provider import AnyProvider, ApiKeyCheck, ProviderAccess

_NOT_SET: Final = "not set: its jobs cannot run"


def check_secrets(deployed: DeployedStack) -> Iterator[Finding]:
    """Check each secret that the contracts use."""
    client = deployed.connection.client("secretsmanager")
    # If plug-ins share a secret, the one with its name knows the prefixes.
    named_last = sorted(deployed.providers, key=lambda plugin: plugin.name == plugin.secret_name)
    plugins = {plugin.secret_name: plugin for plugin in named_last}
    outputs = deployed.connection.outputs
    for name in deployed.secret_names:
        # The reconciler and commands use the read-only key.
        for check, suffix in (("API key", "SecretArn"), ("read-only API key", "ReadOnlySecretArn")):
            if arn := outputs.get(f"{pascal_case(name)}{suffix}"):
                label = f"{check} of {name}"
                yield _check_secret(client, deployed.connection, label, arn, plugins.get(name))


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
    check: str,
    arn: str,
    plugin: AnyProvider | None,
) -> Finding:
    fix = f"aws secretsmanager put-secret-value --secret-id {arn} --secret-string …"
    try:
        value = client.get_secret_value(SecretId=arn).get("SecretString") or ""
    except AWS_ERRORS as error:
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
    if plugin is None:
        return passed(check, "set")
    return _check_key(connection, plugin, check, value, fix)


def _check_key(
    connection: StackConnection, plugin: AnyProvider, check: str, value: str, fix: str
) -> Finding:
    provider = plugin.profile.name
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
