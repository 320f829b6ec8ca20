"""Guardrails reject settings that would break a guarantee, and name the setting and its bound."""

from dataclasses import replace
from datetime import timedelta

import pytest

from app import build_app
from oncely.contract import AnyContract
from oncely.domain.profiles import RetrySafety
from oncely.jobs import CONTRACTS
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.sync_contact import SyncContact
from oncely_cdk.guardrails import UnsafeStageError, validate_stage
from oncely_cdk.stages import Stage


@pytest.mark.parametrize("name", ["dev", "prod", "local"])
def test_every_shipped_stage_passes(name: str) -> None:
    validate_stage(Stage.from_context({"stage": name}, CONTRACTS), CONTRACTS)


class ShortRetentionCharge(PaymentCharge):
    """A charge whose proof is kept for 12 hours."""

    proof_retention = timedelta(hours=12)


@pytest.mark.parametrize(
    ("kind", "context", "sentence"),
    [
        # One contract only: the error names the one that takes longest.
        pytest.param(
            PaymentCharge,
            {"visibility_timeout_seconds": "719"},
            r"visibility_timeout_seconds is 719 s but must be at least 720 s, 6 times "
            r"worker_timeout_seconds \(120 s\)",
            id="visibility",
        ),
        pytest.param(
            PaymentCharge,
            {"reconciler_timeout_seconds": "121"},
            r"visibility_timeout_seconds is 720 s but must be at least 726 s, 6 times "
            r"reconciler_timeout_seconds \(121 s\)",
            id="visibility of dead letters and rejects",
        ),
        pytest.param(
            PaymentCharge,
            {"worker_timeout_seconds": "48", "visibility_timeout_seconds": "288"},
            r"worker_timeout_seconds is 48 s but must be more than 48 s, the longest run of "
            r"payment.charge: 4 calls of 10 s to Stripe, and 8 s to record the result",
            id="provider calls and commit in the worker",
        ),
        pytest.param(
            PaymentCharge,
            {"reconciler_timeout_seconds": "40"},
            r"reconciler_timeout_seconds is 40 s but must be more than 48 s",
            id="provider calls and commit in the reconciler",
        ),
        pytest.param(
            PaymentCharge,
            {"visibility_timeout_seconds": "132"},
            r"visibility_timeout_seconds is 132 s but must be more than 132 s, the lease of "
            r"payment.charge: worker_timeout_seconds \+ the request timeout of Stripe \+ "
            r"2 s of clock",
            id="lease",
        ),
        pytest.param(
            PaymentCharge,
            {"queue_retention_days": "14"},
            r"dead_letter_retention_days is 14 days but must be more than queue_retention_days "
            r"\(14 days\)",
            id="dead letter retention",
        ),
        pytest.param(
            SyncContact,
            {"row_retention_days": "30"},
            r"row_retention_days of sync.contact is 30 days but must be more than 30 days "
            r"\(replay_window_days\)",
            id="natural effect and the replay window",
        ),
        pytest.param(
            SyncContact,
            {"row_retention_days": "18", "replay_window_days": "7"},
            r"row_retention_days of sync.contact is 18 days but must be more than 18 days "
            r"\(queue_retention_days \+ dead_letter_retention_days\)",
            id="natural effect and the queues",
        ),
        pytest.param(
            PaymentCharge,
            {"replay_window_days": "2555"},
            r"proof_retention of payment.charge is 2555 days but must be more than 2555 days "
            r"\(replay_window_days\)",
            id="money and the replay window",
        ),
        pytest.param(
            ShortRetentionCharge,
            {
                "replay_window_days": "1",
                "queue_retention_days": "1",
                "dead_letter_retention_days": "2",
            },
            r"proof_retention of .* is 0.5 days but must be more than 3 days",
            id="what a contract states",
        ),
        pytest.param(
            ReceiptSend,
            {"replay_window_days": "400"},
            r"proof_retention of receipt.send is 400 days but must be more than 400 days",
            id="default",
        ),
    ],
)
def test_unsafe_configuration_error_names_both_numbers(
    kind: type[AnyContract], context: dict[str, str], sentence: str
) -> None:
    stage = Stage.from_context({"stage": "prod", **context}, CONTRACTS)

    with pytest.raises(UnsafeStageError, match=sentence):
        validate_stage(stage, (kind,))


def test_provider_key_window_counts_for_proof_retention() -> None:
    class LongWindow(ShortRetentionCharge):
        proof_retention = timedelta(days=100)
        policy = replace(
            PaymentCharge.policy,
            profile=replace(PaymentCharge.policy.profile, key_ttl=timedelta(days=100)),
        )

    stage = Stage.from_context({"stage": "prod"}, CONTRACTS)

    with pytest.raises(UnsafeStageError, match=r"100 days \(the key window of Stripe\)"):
        validate_stage(stage, (LongWindow,))


def test_unsafe_stack_is_not_built() -> None:
    sentence = "visibility_timeout_seconds is 719 s but must be at least 720 s"
    with pytest.raises(UnsafeStageError, match=sentence):
        build_app({"stage": "prod", "visibility_timeout_seconds": "719"})


def test_all_errors_are_reported_together() -> None:
    context = {"visibility_timeout_seconds": "10", "row_retention_days": "1"}
    broken = Stage.from_context(context, CONTRACTS)

    with pytest.raises(UnsafeStageError) as refused:
        validate_stage(broken, CONTRACTS)

    natural = [kind for kind in CONTRACTS if kind.policy.safety is RetrySafety.NATURAL]
    assert len(str(refused.value).splitlines()) == 3 + len(natural)
