"""The settings from the environment, and an error with the name of what is missing."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from oncely.app import app_from_env
from oncely.contracts.settings import Settings
from oncely.core.errors import NotConfiguredError
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.sync_contact import SyncContact
from oncely.jobs.sync_push import SyncPush
from oncely.providers.hubspot.plugin import HubSpotSettings
from oncely.providers.ses.plugin import SesSettings
from oncely.providers.stripe.plugin import StripeSettings
from tests.unit.report_job import ReportBuild

CONTRACTS = (PaymentCharge, ReceiptSend, ReportBuild)
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


def test_settings_have_resources_that_environment_names() -> None:
    settings = Settings.from_env({**PAYMENTS, "MAIL_QUEUE_URL": "https://sqs/mail"}, CONTRACTS)
    assert settings.tables == {"orders": "shop-orders"}
    assert settings.secrets == {"stripe": "prod/stripe"}
    assert settings.queues == {"mail": "https://sqs/mail"}


def test_settings_have_defaults_and_parse_numbers() -> None:
    given = {"BATCH_CONCURRENCY": "2", "MAX_RECEIVE_COUNT": "3"}

    for settings, expected in (
        (Settings.from_env(PAYMENTS, CONTRACTS), (10, 50)),
        (Settings.from_env({**PAYMENTS, **given}, CONTRACTS), (2, 3)),
    ):
        assert (settings.batch_concurrency, settings.max_receive_count) == expected


def test_table_retention_has_default_of_schema() -> None:
    variable = "IMPORT_EVENTS_RETENTION_DAYS"
    for given, days in (({}, 400), ({variable: "500"}, 500), ({variable: ""}, 400)):
        app = app_from_env({**PAYMENTS, **given}, (SyncContact,))
        assert app.ports.retention("import_events") == timedelta(days=days)
    with pytest.raises(NotConfiguredError, match=variable):
        Settings.from_env({**PAYMENTS, variable: "0"}, (SyncContact,))
    with pytest.raises(NotConfiguredError, match="ORDERS_RETENTION_DAYS: missing"):
        app_from_env(PAYMENTS, CONTRACTS).ports.retention("orders")


def test_provider_settings_are_read_by_plugin_name() -> None:
    given = {"STRIPE_API_BASE": "http://local", "HUBSPOT_ID_PROPERTY": "our_id"}

    providers = Settings.from_env({**PAYMENTS, **given}, (PaymentCharge, SyncPush)).providers

    assert providers["hubspot"] == HubSpotSettings(id_property="our_id")
    assert providers["stripe"] == StripeSettings(api_base="http://local")
    assert providers["ses"] == SesSettings()  # a charge asks whether a receipt follows


@pytest.mark.parametrize("variable", [name for name in PAYMENTS if name != "QUEUE_NAME"])
@pytest.mark.parametrize("empty", [True, False])
def test_missing_or_empty_variable_is_named(variable: str, *, empty: bool) -> None:
    environment = {**PAYMENTS, variable: ""}
    if not empty:
        del environment[variable]

    with pytest.raises(NotConfiguredError, match=f"{variable}: missing") as caught:
        _ = app_from_env(environment, CONTRACTS).batch_processor

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("queue", ["", "elsewhere"])
def test_worker_without_contracts_is_not_built(queue: str) -> None:
    with pytest.raises(NotConfiguredError, match="QUEUE_NAME"):
        _ = app_from_env({**PAYMENTS, "QUEUE_NAME": queue}, CONTRACTS).batch_processor


@pytest.mark.parametrize(
    ("variable", "wrong"),
    [
        ("BATCH_CONCURRENCY", "0"),
        ("BATCH_CONCURRENCY", "many"),
        ("MAX_RECEIVE_COUNT", "1"),
        ("STRIPE_LOOKUPS_PER_SECOND", "0"),
    ],
)
def test_invalid_number_is_reported_by_variable(variable: str, wrong: str) -> None:
    with pytest.raises(NotConfiguredError, match=f"{variable}: "):
        Settings.from_env({**PAYMENTS, variable: wrong}, CONTRACTS)


def test_settings_are_frozen() -> None:
    settings = Settings.from_env(PAYMENTS, CONTRACTS)
    with pytest.raises(ValidationError):
        settings.jobs_table = "other"  # type: ignore[misc]  # on purpose
