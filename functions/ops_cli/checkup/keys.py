"""Whether each provider has a key and HubSpot accepts its own; no key is ever shown."""

from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from oncely.adapters.aws import code_of
from oncely.adapters.hubspot_keys import KeyCheck
from oncely.settings import camel
from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding, broken, ok, warning
from ops_cli.place import Place

# How Stripe's keys begin; a value that does not is most likely a mistake. HubSpot's have no common
# beginning, since service keys replace private apps: HubSpot itself is asked.
_BEGINNINGS: Final = {"stripe": ("sk_", "rk_")}
_TEST_KEYS: Final = ("sk_test_", "rk_test_")


def keys(deployed: Deployed) -> Iterator[Finding]:
    """Each secret that the contracts name."""
    client = deployed.place.client("secretsmanager")
    for name in deployed.secret_names:
        if arn := deployed.place.outputs.get(f"{camel(name)}SecretArn"):
            yield _key(client, deployed.place, name, arn)


def _key(client: Any, place: Place, name: str, arn: str) -> Finding:  # noqa: ANN401  # boto3's client
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
    return _value(about, place, name, value.strip(), mend)


def _value(about: str, place: Place, name: str, value: str, mend: str) -> Finding:
    if not value:
        return broken(about, "it is empty: no job of it can run", mend)
    if not (value.isascii() and value.isprintable()):
        told = "it holds a line break or a character that no API key has: no job of it can run"
        return broken(about, told, mend)
    beginnings = _BEGINNINGS.get(name, ("",))
    if not value.startswith(beginnings):
        return broken(about, f"it does not begin with {' or '.join(beginnings)}", mend)
    if place.name.endswith("-prod") and value.startswith(_TEST_KEYS):
        return warning(about, "it is a key for tests, in production", mend)
    match place.ask_about_key(name, value):
        case KeyCheck(accepted=True):
            return ok(about, "HubSpot accepts it")
        case KeyCheck(accepted=False, reason=reason):
            return broken(about, f"HubSpot rejects it: {reason}", mend)
        case KeyCheck(reason=reason):
            return warning(about, f"HubSpot could not be asked about it: {reason}")
        case None:
            return ok(about, "there is one")
