"""A function's environment: read whole, or refused in one sentence that names the variables."""

import pytest
from pydantic import ValidationError

from oncely.domain.errors import NotConfiguredError
from oncely.jobs.payment_charge import PaymentCharge
from oncely.settings import (
    DeadLetterSettings,
    FindDueSettings,
    FinishSweepSettings,
    PublisherSettings,
    ReconcilerSettings,
    RejectArchiveSettings,
    ResolveGroupSettings,
    Settings,
    WorkerSettings,
)
from tests.unit.report_contract import ReportBuild

CONTRACTS = (PaymentCharge, ReportBuild)
SETTINGS_TYPES = (
    DeadLetterSettings,
    FindDueSettings,
    ResolveGroupSettings,
    PublisherSettings,
    RejectArchiveSettings,
    ReconcilerSettings,
    FinishSweepSettings,
    WorkerSettings,
)
PAYMENTS = {
    "QUEUE_NAME": "payments",
    "QUEUE_URL": "https://sqs/payments",
    "REJECTS_QUEUE_URL": "https://sqs/rejects",
    "ALERT_TOPIC_ARN": "arn:aws:sns:alerts",
    "RETENTION_DAYS": "400",
    "JOBS_TABLE": "jobs",
    "ORDERS_TABLE": "shop-orders",
    "STRIPE_SECRET": "prod/stripe",
}
ALL_ENV_VARS = {
    **PAYMENTS,
    "PAYMENTS_QUEUE_URL": "https://sqs/payments",
    "REPORTS_QUEUE_URL": "https://sqs/reports",
    "EVENT_BUS_NAME": "bus",
    "ARCHIVE_BUCKET": "archive",
    "RECONCILER_ARN": "arn:aws:states:reconciler",
}


def test_worker_gets_tables_and_secrets_of_its_contracts() -> None:
    settings = WorkerSettings.from_env(PAYMENTS, CONTRACTS)

    assert settings.tables == {"orders": "shop-orders"}
    assert settings.secrets == {"stripe": "prod/stripe"}


def test_worker_gets_queues_its_contracts_send_to() -> None:
    environment = {**PAYMENTS, "QUEUE_NAME": "reports", "MAIL_QUEUE_URL": "https://sqs/mail"}

    settings = WorkerSettings.from_env(environment, CONTRACTS)

    assert settings.queues == {"mail": "https://sqs/mail"}
    assert (settings.tables, settings.secrets) == ({}, {})


def test_resolver_gets_resources_of_every_contract() -> None:
    settings = ReconcilerSettings.from_env(ALL_ENV_VARS, CONTRACTS)

    assert set(settings.queues) == {"payments", "reports"}
    assert (set(settings.tables), set(settings.secrets)) == ({"orders"}, {"stripe"})
    assert settings.retention_days == 400


def test_settings_have_defaults_and_parse_numbers() -> None:
    plain = WorkerSettings.from_env(PAYMENTS, CONTRACTS)
    said = WorkerSettings.from_env(
        {
            **PAYMENTS,
            "BATCH_CONCURRENCY": "2",
            "MAX_RECEIVE_COUNT": "3",
            "STRIPE_API_BASE": "http://local",
        },
        CONTRACTS,
    )

    assert (plain.batch_concurrency, plain.max_receive_count, plain.stripe_api_base) == (
        10,
        5,
        None,
    )
    assert (said.batch_concurrency, said.max_receive_count, said.stripe_api_base) == (
        2,
        3,
        "http://local",
    )


@pytest.mark.parametrize("variable", PAYMENTS)
@pytest.mark.parametrize("empty", [True, False])
def test_missing_or_empty_variable_is_named(variable: str, *, empty: bool) -> None:
    environment = {**PAYMENTS, variable: ""}
    if not empty:
        del environment[variable]

    with pytest.raises(NotConfiguredError, match=f"{variable}: ") as caught:
        WorkerSettings.from_env(environment, CONTRACTS)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", SETTINGS_TYPES)
def test_every_settings_type_names_missing_variables(
    kind: type[Settings],
) -> None:
    required = {name.upper() for name, field in kind.model_fields.items() if field.is_required()}

    kind.from_env(ALL_ENV_VARS, CONTRACTS if kind is not WorkerSettings else (PaymentCharge,))
    with pytest.raises(NotConfiguredError) as caught:
        kind.from_env({}, CONTRACTS)

    assert all(f"{name}: " in str(caught.value) for name in required)


@pytest.mark.parametrize(
    ("variable", "wrong"),
    [("BATCH_CONCURRENCY", "0"), ("BATCH_CONCURRENCY", "many"), ("MAX_RECEIVE_COUNT", "1")],
)
def test_invalid_number_is_reported_by_variable(variable: str, wrong: str) -> None:
    with pytest.raises(NotConfiguredError, match=f"{variable}: "):
        WorkerSettings.from_env({**PAYMENTS, variable: wrong}, CONTRACTS)


def test_settings_are_frozen() -> None:
    settings = WorkerSettings.from_env(PAYMENTS, CONTRACTS)

    with pytest.raises(ValidationError, match="frozen"):
        settings.queue_name = "other"  # type: ignore[misc]  # that it is frozen is the point
