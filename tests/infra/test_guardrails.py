"""Guardrails: numbers that would break the promise are refused, in a sentence with both."""

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

BROKEN = [
    pytest.param(
        {"visibility_timeout_seconds": "719"},
        r"come back after 719 s \(visibility_timeout_seconds\), while its function may run for "
        r"120 s \(worker_timeout_seconds\): visibility_timeout_seconds must be at least 6 times "
        r"that, 720 s",
        id="visibility",
    ),
    pytest.param(
        {"reconciler_timeout_seconds": "121"},
        r"come back after 720 s \(visibility_timeout_seconds\), while its function may run for "
        r"121 s \(reconciler_timeout_seconds\): visibility_timeout_seconds must be at least 6 "
        r"times that, 726 s",
        id="visibility of dead letters and rejects",
    ),
    pytest.param(
        {"worker_timeout_seconds": "48", "visibility_timeout_seconds": "288"},
        r"One payment.charge may take 48 s \(4 calls of 10 s to Stripe, and 8 s to record the "
        r"end\), but its function is stopped after 48 s \(worker_timeout_seconds\)",
        id="provider calls and commit in the worker",
    ),
    pytest.param(
        {"reconciler_timeout_seconds": "40"},
        r"One payment.charge may take 48 s .* stopped after 40 s \(reconciler_timeout_seconds\)",
        id="provider calls and commit in the reconciler",
    ),
    pytest.param(
        {"visibility_timeout_seconds": "132"},
        r"The lease of a payment.charge lasts 132 s \(worker_timeout_seconds \+ the request "
        r"timeout of Stripe \+ 2 s of clock skew\), but its message comes back after 132 s "
        r"\(visibility_timeout_seconds\)",
        id="lease",
    ),
    pytest.param(
        {"queue_retention_days": "14"},
        r"Dead letters would be kept for 14 days \(dead_letter_retention_days\), .* "
        r"for 14 days \(queue_retention_days\) already",
        id="dead letter retention",
    ),
]


@pytest.mark.parametrize("name", ["dev", "prod", "local"])
def test_every_shipped_stage_passes(name: str) -> None:
    validate_stage(Stage.from_context({"stage": name}, CONTRACTS), CONTRACTS)


@pytest.mark.parametrize(("context", "sentence"), BROKEN)
def test_unsafe_configuration_error_names_both_numbers(
    context: dict[str, str], sentence: str
) -> None:
    # Not all contracts: another one may take longer, and is then the one that is named.
    stage = Stage.from_context({"stage": "prod", **context}, CONTRACTS)

    with pytest.raises(UnsafeStageError, match=sentence):
        validate_stage(stage, (PaymentCharge,))


class ShortRetentionCharge(PaymentCharge):
    """A charge whose proof is kept for half a day."""

    proof_retention = timedelta(hours=12)


@pytest.mark.parametrize(
    ("kind", "context", "sentence"),
    [
        pytest.param(
            SyncContact,
            {"row_retention_days": "30"},
            r"ended sync.contact would be kept for 30 days \(row_retention_days\), but the job "
            r"could be run again for 30 days \(replay_window_days\): "
            r"row_retention_days must be longer",
            id="natural effect and the replay window",
        ),
        pytest.param(
            SyncContact,
            {"row_retention_days": "18", "replay_window_days": "7"},
            r"kept for 18 days \(row_retention_days\), but the job could be run again for 18 days "
            r"\(queue_retention_days \+ dead_letter_retention_days\)",
            id="natural effect and the queues",
        ),
        pytest.param(
            PaymentCharge,
            {"replay_window_days": "2555"},
            r"ended payment.charge would be kept for 2555 days \(proof_retention\), but the job "
            r"could be run again for 2555 days \(replay_window_days\): "
            r"proof_retention must be longer",
            id="money and the replay window",
        ),
        pytest.param(
            ShortRetentionCharge,
            {
                "replay_window_days": "1",
                "queue_retention_days": "1",
                "dead_letter_retention_days": "2",
            },
            r"kept for 0.5 days \(proof_retention\), but the job could be run again for 3 days",
            id="what a contract states",
        ),
        pytest.param(
            ReceiptSend,
            {"replay_window_days": "400"},
            r"kept for 400 days \(proof_retention\), but the job could be run again for 400 days",
            id="default",
        ),
    ],
)
def test_proof_that_expires_before_replay_is_rejected(
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
    with pytest.raises(
        UnsafeStageError, match="visibility_timeout_seconds must be at least 6 times"
    ):
        build_app({"stage": "prod", "visibility_timeout_seconds": "719"})


def test_all_errors_are_reported_together() -> None:
    broken = Stage.from_context(
        {"visibility_timeout_seconds": "10", "row_retention_days": "1"}, CONTRACTS
    )

    with pytest.raises(UnsafeStageError) as refused:
        validate_stage(broken, CONTRACTS)

    natural = [kind for kind in CONTRACTS if kind.policy.safety is RetrySafety.NATURAL]
    assert len(str(refused.value).splitlines()) == 3 + len(natural)
