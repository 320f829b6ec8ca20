"""The register of provider facts: every number has a basis, and the installed SDKs agree with it.

HubSpot is called without an SDK, so nothing installed can be compared with its facts.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from importlib import import_module
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Final

import botocore.configprovider
import pytest
import stripe
from botocore.session import Session

from oncely.cli.render_docs import facts_of, provider_numbers
from oncely.contracts.job import providers_of
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.plugins.facts import Fact
from oncely.plugins.provider import AnyProvider
from oncely.providers.braintree import responses as braintree_responses
from oncely.providers.braintree import sdk as braintree_sdk
from oncely.providers.hubspot import responses as hubspot_responses
from oncely.providers.ses import mailer
from oncely.providers.stripe import refunds
from oncely.providers.stripe import responses as stripe_responses

PLUGINS: Final = {plugin.name: plugin for plugin in providers_of(SHIPPED_JOBS)}
each_plugin = pytest.mark.parametrize("plugin", PLUGINS.values(), ids=PLUGINS)


@each_plugin
def test_every_number_has_one_fact_that_states_it(plugin: AnyProvider) -> None:
    stated = {one.of: f"{one.says} {one.does}" for one in facts_of(plugin).facts if one.of}
    numbers = provider_numbers(plugin)

    assert stated.keys() == numbers.keys()
    assert [name for name, value in numbers.items() if value not in stated[name]] == []


@each_plugin
def test_sources_are_dated_pages(plugin: AnyProvider) -> None:
    today = datetime.now(UTC).date()
    for fact in facts_of(plugin).facts:
        assert fact.read is None or fact.read <= today
        assert not fact.source or re.fullmatch(r"https://[\w.-]+/\S+", fact.source)


def test_source_without_date_is_refused() -> None:
    with pytest.raises(ValueError, match="a source needs the date"):
        Fact(says="A key lives forever.", source="https://example.com/keys")
    assert Fact(says="A key lives forever.", read=date(2026, 11, 18)).source == ""


@pytest.mark.parametrize(
    ("name", "module", "constants"),
    [
        ("stripe", stripe_responses, "_LOCK_TIMEOUT _CARD_DECLINED _REJECTED_STATUSES"),
        ("stripe", stripe_responses, "_UNAUTHORIZED _RATE_LIMITED"),
        ("stripe", refunds, "_ALREADY_REFUNDED"),
        ("braintree", braintree_responses, "_DUPLICATE _CHARGED _UNDECIDED _OPEN"),
        ("hubspot", hubspot_responses, "_RETRY_LATER_STATUSES _UNAUTHORIZED _TOO_LARGE"),
        ("hubspot", hubspot_responses, "_POLICY_DELAYS _STATUS_BY_CATEGORY _CONFLICT"),
        ("ses", mailer, "_DECLINED_CODES _THROTTLED_CODES _MISCONFIGURED"),
    ],
)
def test_codes_that_clients_branch_on_are_facts(
    name: str, module: ModuleType, constants: str
) -> None:
    text = " ".join(f"{fact.says} {fact.does}" for fact in facts_of(PLUGINS[name]).facts)
    values = [vars(module)[constant] for constant in constants.split()]
    codes = [code for one in values for code in ([one] if isinstance(one, str | int) else one)]

    assert [code for code in codes if not re.search(rf"\b{code}\b", text)] == []


def stripe_knows() -> Iterator[str]:
    """Every name with "idempotent" or "replayed" that the SDK writes as a literal."""
    literal = re.compile(r"""["']([\w-]*(?:idempot|replay)[\w-]*)["']""", re.IGNORECASE)
    for path in Path(stripe.__file__).parent.rglob("*.py"):
        yield from literal.findall(path.read_text())
    yield f"max_network_retries = {stripe.max_network_retries}"


def braintree_knows() -> Iterator[str]:
    """The calls that accept a key, the errors about keys, and other modules that know keys."""
    package = braintree_sdk.BraintreeGateway.__module__.partition(".")[0]
    gateway = import_module(f"{package}.transaction_gateway").TransactionGateway
    for name, method in vars(gateway).items():
        names = list(signature(method).parameters) if callable(method) else [""]
        if not name.startswith("_") and re.search("params|options", names[-1]):
            try:
                method(gateway(_Wire()), *["1"] * (len(names) - 2), {"api_request_key": "key"})
            except _SentError:
                yield f"{name}(api_request_key)"
            except KeyError:
                continue  # it refuses the parameter
    errors = vars(import_module(f"{package}.error_codes").ErrorCodes.Transaction)
    yield from (str(errors[name]) for name in errors if re.search("RequestKey|Idempot", name))
    known = {"error_codes.py", "transaction.py", "transaction_gateway.py"}
    for path in Path(str(import_module(package).__file__)).parent.rglob("*.py"):
        if re.search("api_?request_?key|idempot", path.read_text(), re.IGNORECASE):
            yield from {path.name} - known


class _SentError(Exception):
    """The SDK accepted the parameters, and would have sent them."""


class _Wire:
    """A gateway, its configuration and its HTTP client. No request is sent."""

    @property
    def config(self) -> "_Wire":
        return self

    def base_merchant_path(self) -> str:
        return "/merchants/m"

    def http(self) -> "_Wire":
        return self

    def post(self, _path: str, params: object = None) -> None:
        raise _SentError(params)

    put = post


def botocore_knows() -> Iterator[str]:
    """The tokens of SES's calls, those that read an email, SendEmail's errors, and retries."""
    model = Session().get_service_model("sesv2")
    for name in model.operation_names:
        operation = model.operation_model(name)
        members = operation.input_shape.members if operation.input_shape is not None else ()
        tokens = {one for one in members if re.search("(?i)idempot|dedup|client_?token", one)}
        yield from (f"{name}.{one}" for one in {*operation.idempotent_members, *tokens})
        if re.match("(Batch)?(Get|List|Search).*Message", name):
            yield name
    yield from (one.name for one in model.operation_model("SendEmail").error_shapes)
    defaults = botocore.configprovider.BOTOCORE_DEFAUT_SESSION_VARIABLES
    yield f"retry_mode = {defaults['retry_mode'][2]}"


KNOWS: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "stripe": stripe_knows,
    "braintree": braintree_knows,
    "botocore": botocore_knows,
}


@each_plugin
def test_installed_sdk_knows_what_is_recorded(plugin: AnyProvider) -> None:
    """Red after a new pin: read what changed, then raise the version and the date in facts.py."""
    if (sdk := facts_of(plugin).sdk) is None:
        assert plugin.name == "hubspot"
        return

    assert set(KNOWS[sdk.package]()) == sdk.knows.keys()
    assert version(sdk.package) == sdk.version
