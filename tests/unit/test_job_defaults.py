"""What a job type does by default."""

from datetime import timedelta

import pytest

from oncely.contracts.job import AnyJob
from oncely.core.effect_outcomes import BusinessWrite, Declined, Succeeded
from oncely.core.job_row import UNCONFIRMED
from oncely.core.lifecycle import Event, Status
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.payment_refund import PaymentRefund
from oncely.jobs.receipt_send import ReceiptSend
from tests.support.scheduled_charge import ScheduledCharge
from tests.unit.errand_job import FACTS, KEY, Errand, make_errand
from tests.unit.samples import NOW, make_job

EXTRA = BusinessWrite(table="errands", key={"id": "7"}, set={"page": 3})
BY_SUCCESS = BusinessWrite(table="errands", key={"id": "7"}, set={"run": True})
BY_FAILURE = BusinessWrite(table="errands", key={"id": "7"}, set={"run": False})


def test_smallest_job_has_no_follow_ups_and_key_as_window() -> None:
    plain = make_errand()

    assert plain.follow_ups(make_job()) == ()
    assert list(Errand.missing_jobs(plain.tools, now=NOW)) == []
    assert plain.uniqueness_key() == KEY
    assert (plain.subject_id(), plain.resubmission()) == ("7", None)
    assert Errand.keys_for_subject("7") == (KEY,)
    assert Errand.success_summary(make_job()) == "Done: Acme confirmed it."
    unasked = make_job(status=Status.FINISHED, result={"code": UNCONFIRMED})
    assert Errand.success_summary(unasked) == (
        "The business rows say it was done. No provider confirmed it."
    )
    assert plain.key_scope() == ""


@pytest.mark.parametrize(
    ("contract", "detects"), [(PaymentCharge, True), (ReceiptSend, False), (Errand, False)]
)
def test_contract_detects_missing_jobs_only_if_implemented(
    contract: type[AnyJob], *, detects: bool
) -> None:
    assert contract.detects_missing_jobs() is detects


@pytest.mark.parametrize(
    ("contract", "limit"),
    [
        (PaymentCharge, timedelta(0)),
        (PaymentRefund, timedelta(0)),
        (ScheduledCharge, timedelta(days=120)),
        (ReceiptSend, timedelta(days=365)),
    ],
)
def test_contract_that_moves_money_honors_no_time(contract: type[AnyJob], limit: timedelta) -> None:
    assert contract.effective_schedule_limit() == limit


@pytest.mark.parametrize(
    ("event", "writes"),
    [
        (Event.CONFIRM, (BY_SUCCESS, EXTRA)),
        (Event.RESOLVE_FINISHED, (BY_SUCCESS, EXTRA)),
        (Event.DECLINE, (BY_FAILURE,)),
        (Event.RESOLVE_FAILED, (BY_FAILURE,)),
        (Event.ESCALATE, ()),
        (Event.MARK_UNKNOWN, ()),
    ],
)
def test_only_ended_jobs_write_rows(event: Event, writes: tuple[BusinessWrite, ...]) -> None:
    contract = make_errand(on_success=lambda *_: (BY_SUCCESS,), on_failure=lambda *_: (BY_FAILURE,))
    outcome = Succeeded("run", writes=(EXTRA,))

    assert contract.business_writes(event, FACTS, make_job(), outcome) == writes
    without = tuple(write for write in writes if write is not EXTRA)
    assert contract.business_writes(event, FACTS, make_job(), Declined("no", "no")) == without
