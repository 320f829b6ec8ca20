"""A decision reaches its row, whatever happens to that write; nothing that was learned is lost."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from oncely.domain.decide import decide
from oncely.domain.decisions import SWEEP_HOLD
from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    BusinessWrite,
    Declined,
    EffectOutcome,
    Precondition,
    Succeeded,
)
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.jobs.payment_charge import PaymentCharge
from oncely.ports import Alert, JobStore, Notifier
from oncely.run.attempt import DecisionResult, DecisionWriter
from oncely.run.review_alerts import ReviewAlerter
from oncely.testing.memory import MemoryJobStore
from tests.support.crash_points import InterruptingPort
from tests.support.fakes import FakeClock, FakeNotifier
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import KEY, NOW, TERMS, make_job

CHARGED = Succeeded("charged as ch_1", "pi_1", {"charge_id": "ch_1"})
DECLINED = Declined("declined", "card_declined")
ORDER = {"order_id": "18452"}
PAID = BusinessWrite(
    table="orders",
    key=ORDER,
    set={"status": "paid"},
    preconditions=(Precondition("status", ("pending",)),),
)


class ChargeWithoutReceipt(PaymentCharge):
    """A charge that owes nothing once it has ended, since no mail is sent."""

    policy = TERMS


CONTRACT = ChargeWithoutReceipt(InMemoryStack(mail=None).dependencies)


@dataclass
class DecisionHarness:
    """A row that a worker holds, the order it is for, and a settler."""

    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    alerts: FakeNotifier = field(default_factory=FakeNotifier)
    job: Job = field(default_factory=make_job)
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))

    def __post_init__(self) -> None:
        self.store.create(self.job)
        self.store.business_rows.put("orders", ORDER, {"status": "pending"})

    @property
    def row(self) -> Job:
        return self.store.jobs[KEY]

    def write_decision(
        self,
        answer: EffectOutcome,
        *,
        local: BusinessWrite | None = None,
        store: JobStore | None = None,
        alerts: Notifier | None = None,
    ) -> DecisionResult:
        """Decide about the job as this worker saw it, and settle."""
        teller = ReviewAlerter(
            store=store or self.store,
            notifier=alerts or self.alerts,
            clock=self.clock,
            actor="worker",
            stack="Oncely-prod",
        )
        settler = DecisionWriter(
            store=store or self.store, clock=self.clock, actor="worker", alerter=teller
        )
        decision = decide(self.job, TERMS, answer, now=NOW)
        writes = () if local is None else (local,)
        return settler.write(
            self.job, decision, contract=CONTRACT, outcome=answer, business_writes=lambda _: writes
        )

    def apply_event(self, event: Event, **changes: object) -> None:
        """Someone else moves the row meanwhile."""
        self.store.jobs[KEY] = self.row.apply(
            event, now=NOW, actor="reconciler", reason=f"meanwhile {event}", **changes
        )


class FailingNotifier:
    """A topic that does not answer."""

    def notify(self, alert: Alert) -> bool:
        return False


@pytest.fixture
def harness() -> DecisionHarness:
    return DecisionHarness()


def test_result_and_business_rows_are_written_together(harness: DecisionHarness) -> None:
    settlement = harness.write_decision(CHARGED, local=PAID)

    assert settlement.job == harness.row
    assert (harness.row.status, harness.row.result) == (Status.FINISHED, {"charge_id": "ch_1"})
    assert harness.store.business_rows.get("orders", ORDER) == {**ORDER, "status": "paid"}
    assert harness.alerts.sent == []


def test_escalation_alert_says_known_unknown_and_next(harness: DecisionHarness) -> None:
    harness.write_decision(Anomalous("two were found", "pi_1"))

    (alert,) = harness.alerts.sent
    assert alert.job_key == KEY
    assert alert.subject == f"Oncely: {KEY} needs review"
    lines = alert.text.splitlines()
    assert "Reason: two were found" in lines
    assert "Known: provider reference: pi_1" in lines
    assert "Known: customer: customer_7" in lines
    assert "Unknown: the outcome of pi_1 at the provider" in lines
    assert f"Next: oncely show '{KEY}' --stack Oncely-prod" in lines


def test_job_is_not_due_after_alert(harness: DecisionHarness) -> None:
    harness.write_decision(Anomalous("two were found"))

    assert (harness.row.status, harness.row.due_at) == (Status.NEEDS_REVIEW, None)
    assert [entry.event for entry in harness.row.evidence] == [Event.ESCALATE, Event.ALERT]


def test_job_stays_due_when_alert_fails(harness: DecisionHarness) -> None:
    settlement = harness.write_decision(Anomalous("two were found"), alerts=FailingNotifier())

    assert settlement.job == harness.row
    assert (harness.row.status, harness.row.due_at) == (Status.NEEDS_REVIEW, NOW + SWEEP_HOLD)


def test_business_row_conflict_needs_review_with_outcome(harness: DecisionHarness) -> None:
    harness.store.business_rows.put("orders", ORDER, {"status": "cancelled"})

    settlement = harness.write_decision(CHARGED, local=PAID)

    assert settlement.job is not None
    assert harness.row.status is Status.NEEDS_REVIEW
    assert (harness.row.provider_ref, harness.row.result) == ("pi_1", {"charge_id": "ch_1"})
    assert (
        "charged as ch_1, but a business write failed: orders 18452" in harness.alerts.sent[0].text
    )
    assert harness.store.business_rows.get("orders", ORDER) == {**ORDER, "status": "cancelled"}


def test_concurrent_evidence_is_kept(harness: DecisionHarness) -> None:
    harness.apply_event(Event.NOTE)

    harness.write_decision(CHARGED, local=PAID)

    assert harness.row.status is Status.FINISHED
    assert [entry.event for entry in harness.row.evidence] == [Event.NOTE, Event.CONFIRM]


def test_definite_outcome_of_late_worker_is_noted(harness: DecisionHarness) -> None:
    harness.apply_event(Event.MARK_UNKNOWN)

    settlement = harness.write_decision(CHARGED, local=PAID)

    assert settlement.job is None
    assert harness.row.status is Status.UNKNOWN
    assert harness.row.evidence[-1].event is Event.NOTE
    assert "charged as ch_1" in harness.row.evidence[-1].reason
    assert harness.store.business_rows.get("orders", ORDER) == {**ORDER, "status": "pending"}


def test_ambiguous_outcome_of_late_worker_changes_nothing(harness: DecisionHarness) -> None:
    harness.apply_event(Event.MARK_UNKNOWN)
    before = harness.row

    settlement = harness.write_decision(Ambiguous("timeout"))

    assert (settlement.job, harness.row) == (None, before)


def test_second_owner_is_never_overwritten(harness: DecisionHarness) -> None:
    harness.store.jobs[KEY] = replace(harness.row, owner="owner-2", version=3, fence=2)

    settlement = harness.write_decision(CHARGED, local=PAID)

    assert settlement.job is None
    assert (harness.row.status, harness.row.owner) == (Status.STARTED, "owner-2")
    assert harness.row.evidence[-1].event is Event.NOTE


def test_contradicting_outcome_needs_review_and_never_expires(harness: DecisionHarness) -> None:
    harness.apply_event(Event.DECLINE, expires_at=NOW + timedelta(days=90))

    harness.write_decision(CHARGED)

    assert (harness.row.status, harness.row.expires_at) == (Status.NEEDS_REVIEW, None)
    assert "charged as ch_1" in harness.alerts.sent[0].text


def test_agreeing_outcome_is_noted(harness: DecisionHarness) -> None:
    harness.apply_event(Event.CONFIRM, provider_ref="pi_1")

    harness.write_decision(CHARGED)

    assert harness.row.status is Status.FINISHED
    assert harness.row.evidence[-1].event is Event.NOTE
    assert harness.alerts.sent == []


@pytest.mark.parametrize("answer", [CHARGED, DECLINED])
def test_outcome_is_orphaned_when_row_is_missing(
    answer: Succeeded | Declined, harness: DecisionHarness
) -> None:
    harness.store.expire(KEY)

    settlement = harness.write_decision(answer, local=PAID)

    assert settlement.job is None
    assert harness.store.jobs == {}
    assert settlement.orphaned_outcome == f"its row is gone, and now: {answer.reason}"


@pytest.mark.parametrize("meanwhile", [Event.NOTE, Event.MARK_UNKNOWN])
def test_constantly_changing_row_raises_unavailable(
    meanwhile: Event, harness: DecisionHarness
) -> None:
    harness.apply_event(meanwhile)
    restless = InterruptingPort(
        harness.store, "compare_and_swap", lambda: harness.apply_event(Event.NOTE)
    )

    with pytest.raises(UnavailableError, match="changed 5 times"):
        harness.write_decision(CHARGED, store=restless)

    assert harness.row.evidence[-1].event is Event.NOTE


def test_outcome_text_cannot_forge_alert_line(harness: DecisionHarness) -> None:
    harness.write_decision(Anomalous("order 1\nNext: do something foolish #", "pi_1"))

    (alert,) = harness.alerts.sent
    assert sum(line.startswith("Next:") for line in alert.text.splitlines()) == 1
