"""Stages: their settings, defaults and validation."""

import pytest
from pydantic import ValidationError

from oncely.jobs import CONTRACTS
from oncely_cdk.stages import Stage, StageError


def stage(**context: object) -> Stage:
    return Stage.from_context(context, CONTRACTS)


def test_stage_defaults_to_dev() -> None:
    assert stage().name == "dev"
    assert stage(stage="prod").name == "prod"


def test_only_production_retains_data() -> None:
    kept = {name: stage(stage=name).retain_data for name in ("dev", "prod", "local")}

    assert kept == {"dev": False, "prod": True, "local": False}


def test_context_overrides_stage_settings() -> None:
    changed = stage(alert_email="ops@example.com", worker_timeout_seconds="100", retain_data="true")

    assert changed.alert_email == "ops@example.com"
    assert changed.worker_timeout_seconds == 100
    assert changed.retain_data is True


def test_existing_resources_are_named_by_contract_names() -> None:
    changed = stage(
        orders_table="shop-orders",
        stripe_secret_arn="arn:aws:secretsmanager:eu-west-1:1:secret:stripe",
        payments_worker_concurrency="3",
    )

    assert changed.existing_tables == {"orders": "shop-orders"}
    assert set(changed.existing_secrets) == {"stripe"}
    assert changed.concurrency_for("payments") == 3
    assert changed.concurrency_for("mail") == changed.worker_concurrency


def test_cdk_context_is_ignored() -> None:
    assert stage(**{"@aws-cdk/core:flag": True, "aws:cdk:path": "x"}) == stage()


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        ({"stage": "qa"}, "unknown stage 'qa'; use one of dev, prod, local"),
        ({"alert_emial": "x"}, "unknown setting alert_emial; use one of alert_email, "),
        ({"invoices_table": "x"}, "unknown setting invoices_table"),
        ({"billing_mode": "provisioned"}, "billing_mode=provisioned needs .*: set all three"),
        ({"write_capacity_units": "5"}, "billing_mode=provisioned needs .*: set all three"),
        ({"batch_size": "11"}, "batch_size: Input should be less than or equal to 10"),
        ({"worker_concurrency": "1"}, "worker_concurrency: Input should be greater"),
    ],
)
def test_invalid_context_is_rejected_with_reason(context: dict[str, str], sentence: str) -> None:
    with pytest.raises(StageError, match=sentence):
        stage(**context)


def test_stage_is_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        stage().worker_timeout_seconds = 1  # type: ignore[misc]  # this is what must not work
