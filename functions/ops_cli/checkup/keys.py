"""Whether each provider's key was put in; the key itself is never shown."""

from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from oncely.adapters.aws import code_of
from oncely.settings import camel
from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding, broken, ok, warning

# How a provider's keys begin; a value that does not is most likely a mistake.
_BEGINNINGS: Final = {"stripe": ("sk_", "rk_"), "hubspot": ("pat-",)}
_TEST_KEYS: Final = ("sk_test_", "rk_test_")


def keys(deployed: Deployed) -> Iterator[Finding]:
    """Each secret that the contracts name."""
    client = deployed.place.client("secretsmanager")
    for name in deployed.secret_names:
        if arn := deployed.place.outputs.get(f"{camel(name)}SecretArn"):
            yield _key(client, name, arn, production=deployed.place.name.endswith("-prod"))


def _key(client: Any, name: str, arn: str, *, production: bool) -> Finding:  # noqa: ANN401  # boto3's client
    about = f"key of {name}"
    mend = f"aws secretsmanager put-secret-value --secret-id {arn} --secret-string …"
    try:
        value = client.get_secret_value(SecretId=arn).get("SecretString") or ""
    except ClientError as error:
        if code_of(error) == "ResourceNotFoundException":
            return broken(about, "it was never put in: no job of it can run", mend)
        if not code_of(error).startswith("AccessDenied"):
            raise
        there = client.describe_secret(SecretId=arn).get("VersionIdsToStages")
        if there:
            return ok(about, "there is one, which you may not read")
        return broken(about, "it was never put in: no job of it can run", mend)
    return _value(about, name, value.strip(), mend, production=production)


def _value(about: str, name: str, value: str, mend: str, *, production: bool) -> Finding:
    if not value:
        return broken(about, "it is empty: no job of it can run", mend)
    beginnings = _BEGINNINGS.get(name, ("",))
    if not value.startswith(beginnings):
        return broken(about, f"it does not begin with {' or '.join(beginnings)}", mend)
    if production and value.startswith(_TEST_KEYS):
        return warning(about, "it is a key for tests, in production", mend)
    return ok(about, "there is one")
