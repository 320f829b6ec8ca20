"""App is the only place that builds a service, and every service can be built on AWS."""

import ast
from functools import cached_property
from typing import Any

import pytest

from oncely.app import App
from oncely.aws.clients import AwsClients
from oncely.cli.stack_environment import stack_environment
from oncely.contracts.registry import JobRegistry
from oncely.contracts.settings import Settings
from oncely.core.errors import NotConfiguredError
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.ports import Ports
from oncely_cdk.paths import PACKAGE, REPOSITORY
from tests.support.in_memory_stack import SETTINGS


def cached_names(owner: type) -> list[str]:
    members = vars(owner).items()
    return [name for name, one in members if isinstance(one, cached_property) and name[0] != "_"]


def service_classes() -> set[str]:
    return {vars(App)[name].func.__annotations__["return"] for name in cached_names(App)}


def test_only_app_builds_services() -> None:
    services = service_classes()
    paths = [path for root in ("functions", "infra") for path in (REPOSITORY / root).rglob("*.py")]
    built = {
        f"{path.relative_to(REPOSITORY)}: {name}"
        for path in paths
        if path != PACKAGE / "app.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (name := getattr(node.func, "id", None) or getattr(node.func, "attr", None)) in services
    }
    assert {"JobRunner", "Backfill", "ProofRestorer"} <= services
    assert built == set()


class FakeSession:
    def client(self, service: str, **_: object) -> object:
        return service


@pytest.mark.parametrize("service", cached_names(App))
def test_service_is_built_on_aws(service: str) -> None:
    names = ("archive_bucket", "event_account", "event_bus_name", "reconciler_arn")
    settings = SETTINGS.model_copy(update={"queue_name": "payments", **{one: one for one in names}})
    session: Any = FakeSession()
    ports = Ports(settings, AwsClients(session))
    app = App(settings, JobRegistry(SHIPPED_JOBS), ports)

    assert type(getattr(app, service)).__name__ in service_classes()


class NoClients:
    def __getattr__(self, service: str) -> object:
        raise AssertionError(f"a client of {service} was built before its setting was read")


@pytest.mark.parametrize("port", cached_names(Ports))
def test_missing_setting_of_port_is_named(port: str) -> None:
    clients: Any = NoClients()
    with pytest.raises(NotConfiguredError, match=r"\([A-Z_]+: missing\)"):
        getattr(Ports(Settings(), clients), port)


def test_command_has_settings_of_stack_and_own_provider_address() -> None:
    outputs = dict.fromkeys(
        ("ArchiveBucketName", "EventBusName", "OrdersTableName", "StripeSecretArn"), "given"
    )
    with pytest.raises(NotConfiguredError, match="no output GatesTableName, JobsTableName, Pay"):
        stack_environment(outputs, {}, (PaymentCharge,))
    outputs |= {"JobsTableName": "jobs", "PaymentsQueueUrl": "queue", "RowRetentionDays": "35"}
    outputs["GatesTableName"] = "gates"
    outputs["SecondOperatorAbove"] = "eur:50000"
    environ = {"STRIPE_API_BASE": "http://local", "JOBS_TABLE": "other"}

    found = stack_environment(outputs, environ, (PaymentCharge,))

    assert (found["JOBS_TABLE"], found["PAYMENTS_QUEUE_URL"]) == ("jobs", "queue")
    assert (found["STRIPE_API_BASE"], found["RETENTION_DAYS"]) == ("http://local", "35")
    assert found["SECOND_OPERATOR_ABOVE"] == "eur:50000"


def test_command_uses_read_only_api_key_if_there_is_one() -> None:
    names = (
        "ArchiveBucketName",
        "EventBusName",
        "GatesTableName",
        "JobsTableName",
        "OrdersTableName",
    )
    outputs = dict.fromkeys((*names, "PaymentsQueueUrl", "RowRetentionDays"), "35")
    outputs["StripeSecretArn"] = "for workers"
    with_both = {**outputs, "StripeReadOnlySecretArn": "for lookups"}

    assert stack_environment(outputs, {}, (PaymentCharge,))["STRIPE_SECRET"] == "for workers"
    assert stack_environment(with_both, {}, (PaymentCharge,))["STRIPE_SECRET"] == "for lookups"
