"""Guardrails reject settings that would break a guarantee, and name the setting and its bound."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from app import build_app
from oncely.contracts.job import AnyJob
from oncely.core.profiles import RetrySafety
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.jobs.sync_contact import SyncContact
from oncely_cdk.guardrails import UnsafeStageError, validate_stage
from oncely_cdk.stages import OncelySettings, Risk


def settings(**values: Any) -> OncelySettings:  # noqa: ANN401  # of any type
    return OncelySettings(**{"name": "prod", "alert_email": "ops@example.com", **values})


@pytest.mark.parametrize("name", ["dev", "prod", "local"])
def test_every_shipped_stage_passes(name: str) -> None:
    validate_stage(settings(name=name), SHIPPED_JOBS)


@pytest.mark.parametrize(
    ("values", "risk", "sentence"),
    [
        (
            {"alert_email": None},
            "no_alert_recipient",
            "no operator is alerted when a job needs review",
        ),
        (
            {"provider_settings": {"stripe_api_base": "HTTP://stripe.test"}},
            "plain_http_provider",
            "stripe_api_base is a plain HTTP address",
        ),
    ],
)
def test_production_risk_is_refused_until_accepted(
    values: dict[str, Any], risk: str, sentence: str
) -> None:
    other = "optional_mfa"

    refusal = rf'^.*{sentence}.*accepted_risks = \["{risk}"\]\.$'
    for name in ("prod", "live-eu"):
        for accepted in ([], [other]):
            stage = settings(**{"name": name, **values, "accepted_risks": accepted})
            with pytest.raises(UnsafeStageError, match=refusal):
                validate_stage(stage, SHIPPED_JOBS)
    validate_stage(settings(**values, accepted_risks=[risk, other]), SHIPPED_JOBS)
    validate_stage(settings(**values, name="dev"), SHIPPED_JOBS)
    validate_stage(settings(**values, name="staging", production=False), SHIPPED_JOBS)


@pytest.mark.parametrize("accepted", [["*"], True, "optional_mfa", ["optional_mfa", "all"]])
def test_risk_is_accepted_by_its_name_only(accepted: object) -> None:
    with pytest.raises(ValidationError, match="accepted_risks"):
        settings(accepted_risks=accepted)


def test_every_risk_is_tested() -> None:
    (marker,) = getattr(test_production_risk_is_refused_until_accepted, "pytestmark")  # noqa: B009  # pytest's own
    assert {risk for _, risk, _ in marker.args[1]} == {*get_args(Risk)} - {"optional_mfa"}


def test_production_requires_mfa_until_its_risk_is_accepted() -> None:
    assert settings().requires_mfa
    assert settings(accepted_risks=["plain_http_provider"]).requires_mfa
    assert not settings(accepted_risks=["optional_mfa"]).requires_mfa
    assert not settings(name="dev").requires_mfa


def test_production_stack_with_every_risk_is_not_built() -> None:
    every = settings(
        alert_email=None,
        provider_settings={"stripe_api_base": "http://a.test"},
    )
    with pytest.raises(UnsafeStageError) as refused:
        build_app(every)
    assert str(refused.value).count("accepted_risks =") == len(get_args(Risk)) - 1  # not MFA


class ShortRetentionCharge(PaymentCharge):
    """A charge whose proof is kept for 12 hours."""

    proof_retention = timedelta(hours=12)


@pytest.mark.parametrize(
    ("kind", "values", "sentence"),
    [
        # One contract only: the error names the one that takes longest.
        pytest.param(
            PaymentCharge,
            {"worker_timeout_seconds": 48},
            r"worker_timeout_seconds is 48 s but must be more than 48 s, the longest run of "
            r"payment.charge: 4 calls of 10 s to \w+, and 8 s to record the result",
            id="provider calls and commit in the worker",
        ),
        pytest.param(
            PaymentCharge,
            {"reconciler_timeout_seconds": 40},
            r"reconciler_timeout_seconds is 40 s but must be more than 48 s",
            id="provider calls and commit in the reconciler",
        ),
        pytest.param(
            SyncContact,
            {"row_retention_days": 30},
            r"row_retention_days of sync.contact is 30 days but must be more than 30 days "
            r"\(replay_window_days\)",
            id="natural effect and the replay window",
        ),
        pytest.param(
            SyncContact,
            {"row_retention_days": 18, "replay_window_days": 7},
            r"row_retention_days of sync.contact is 18 days but must be more than 18 days "
            r"\(queue_retention_days \+ 14 days of dead letters\)",
            id="natural effect and the queues",
        ),
        pytest.param(
            SyncContact,
            {"table_retention_days": {"import_events": 89}},
            r"table_retention_days.import_events is 89 days but must be at least 90 days, as "
            r"long as the rows of sync.contact prove that it ran",
            id="import events and the proof",
        ),
        pytest.param(
            SyncContact,
            {"row_retention_days": 401},
            r"table_retention_days.import_events is 400 days but must be at least 401 days",
            id="default of import events and the proof",
        ),
        pytest.param(
            PaymentCharge,
            {"replay_window_days": 2555},
            r"proof_retention of payment.charge is 2555 days but must be more than 2555 days "
            r"\(replay_window_days\)",
            id="money and the replay window",
        ),
        pytest.param(
            ShortRetentionCharge,
            {"replay_window_days": 1, "queue_retention_days": 1},
            r"proof_retention of .* is 0.5 days but must be more than 15 days",
            id="what a contract states",
        ),
        pytest.param(
            ReceiptSend,
            {"replay_window_days": 400},
            r"proof_retention of receipt.send is 400 days but must be more than 400 days",
            id="default",
        ),
    ],
)
def test_unsafe_configuration_error_names_both_numbers(
    kind: type[AnyJob], values: dict[str, Any], sentence: str
) -> None:
    stage = settings(**values)

    with pytest.raises(UnsafeStageError, match=sentence):
        validate_stage(stage, (kind,))


@pytest.mark.parametrize(("worker", "reconciler", "hidden"), [(120, 60, 720), (60, 121, 726)])
def test_message_stays_hidden_for_six_timeouts(worker: int, reconciler: int, hidden: int) -> None:
    stage = settings(worker_timeout_seconds=worker, reconciler_timeout_seconds=reconciler)
    assert stage.visibility_timeout_seconds == hidden


@pytest.mark.parametrize(
    "values", [{"queue_retention_days": 14}, {"rejects_retention_days": 13}], ids=str
)
def test_dead_letters_outlive_queues_and_rejects_outlive_them(values: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=next(iter(values))):
        settings(**values)


def test_shortest_retentions_pass() -> None:
    stage = settings(table_retention_days={"import_events": 90}, rejects_retention_days=14)
    validate_stage(stage, SHIPPED_JOBS)


def test_table_retention_concerns_only_contracts_that_write_it() -> None:
    validate_stage(settings(table_retention_days={"import_events": 89}), (PaymentCharge,))


def test_provider_key_window_counts_for_proof_retention() -> None:
    class LongWindow(ShortRetentionCharge):
        proof_retention = timedelta(days=100)

    profile = replace(PaymentCharge.policy.profile, key_ttl=timedelta(days=100))
    LongWindow.policies = {"stripe": replace(PaymentCharge.policy, profile=profile)}
    stage = settings()

    with pytest.raises(UnsafeStageError, match=r"100 days \(the key window of Stripe\)"):
        validate_stage(stage, (LongWindow,))


def test_unsafe_stack_is_not_built() -> None:
    sentence = "worker_timeout_seconds is 48 s but must be more than 48 s"
    with pytest.raises(UnsafeStageError, match=sentence):
        build_app(settings(worker_timeout_seconds=48))


def test_all_errors_are_reported_together() -> None:
    broken = settings(name="dev", worker_timeout_seconds=5, row_retention_days=1)

    with pytest.raises(UnsafeStageError) as refused:
        validate_stage(broken, SHIPPED_JOBS)

    natural = [kind for kind in SHIPPED_JOBS if kind.policy.safety is RetrySafety.NATURAL]
    assert len(str(refused.value).splitlines()) == len(SHIPPED_JOBS) + len(natural)
