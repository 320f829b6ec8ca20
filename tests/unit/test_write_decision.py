"""A decision reaches its row, whatever happens to the write, and no outcome is lost."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from oncely.alerts.budget import Alert
from oncely.alerts.budgeted_notifier import BudgetedNotifier, DynamoAlertBudget
from oncely.alerts.review_alerts import ReviewAlerter
from oncely.core.attempt import DecisionResult, DecisionWriter, only_for
from oncely.core.decide import SWEEP_HOLD, recheck_at
from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    BusinessWrite,
    Declined,
    EffectOutcome,
    Precondition,
    Succeeded,
)
from oncely.core.errors import UnavailableError
from oncely.core.job_row import MAX_EVIDENCE_ENTRIES, JobRow, is_our_write, operator_actor
from oncely.core.lifecycle import Event, Status
from oncely.core.store import JobStore
from oncely.jobs.payment_charge import PaymentCharge
from oncely.operate.own_tables import JOBS
from tests.support.crash_points import InterruptingPort
from tests.support.fakes import FakeClock, FakeNotifier
from tests.support.in_memory_stack import InMemoryStack
from tests.support.stored_rows import InspectableStore
from tests.unit.decision_grid import decide_any
from tests.unit.samples import KEY, NOW, TERMS, make_entry, make_job

CHARGED = Succeeded("charged as ch_1", "pi_1", {"charge_id": "ch_1"})
DECLINED = Declined("declined", "card_declined")
ORDER = {"order_id": "18452"}
PAID = BusinessWrite(
    table="orders",
    key=ORDER,
    set={"status": "paid"},
    preconditions=(Precondition("status", ("pending",)),),
)


class AcmeCharge(PaymentCharge):
    """A charge at the provider of the samples."""


AcmeCharge.policies = {"acme": TERMS}
# It has no follow-ups, because no email is sent.
CONTRACT = AcmeCharge(order_id="18452").with_tools(InMemoryStack(mail=None).tools)


@dataclass
class DecisionHarness:
    store: InspectableStore = field(default_factory=InspectableStore)
    alerts: FakeNotifier = field(default_factory=FakeNotifier)
    job: JobRow = field(default_factory=make_job)
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))

    def __post_init__(self) -> None:
        self.store.create(self.job)
        self.store.business_rows.put("orders", ORDER, {"status": "pending"})

    @property
    def row(self) -> JobRow:
        return self.store.jobs[KEY]

    def write_decision(
        self,
        answer: EffectOutcome,
        *,
        local: BusinessWrite | None = None,
        store: JobStore | None = None,
        alerts: FakeNotifier | None = None,
    ) -> DecisionResult:
        alerter = ReviewAlerter(
            store=store or self.store,
            notifier=lambda: BudgetedNotifier(
                channel=(alerts or self.alerts).notify,
                budget=DynamoAlertBudget(self.store.aws.clients.dynamodb, JOBS),
                clock=self.clock,
                max_alerts=10,
            ),
            clock=self.clock,
            actor="worker",
            stack="Oncely-prod",
        )
        stored = store or self.store
        writer = DecisionWriter(store=stored, clock=self.clock, actor="worker", alerter=alerter)
        writes = () if local is None else (local,)
        return writer.write(
            self.job,
            lambda row: decide_any(row, TERMS, answer, now=NOW),
            contract=CONTRACT,
            outcome=answer,
            business_writes=lambda _event, _after: writes,
        )

    def apply_event(self, event: Event, **changes: object) -> None:
        self.store.jobs[KEY] = self.row.apply(
            event, now=NOW, actor="reconciler", reason=f"meanwhile {event}", **changes
        )


class FailingNotifier(FakeNotifier):
    def notify(self, alert: Alert) -> bool:
        return False


@pytest.fixture
def rig() -> DecisionHarness:
    return DecisionHarness()


def test_result_and_business_rows_are_written_together(rig: DecisionHarness) -> None:
    assert rig.write_decision(CHARGED, local=PAID).job == rig.row
    assert (rig.row.status, rig.row.result) == (Status.FINISHED, {"charge_id": "ch_1"})
    assert rig.store.business_rows.get("orders", ORDER) == {**ORDER, "status": "paid"}
    assert rig.alerts.sent == []


def test_escalation_alert_says_known_unknown_and_next(rig: DecisionHarness) -> None:
    rig.write_decision(Anomalous("two were found", "pi_1"))

    (alert,) = rig.alerts.sent
    assert (alert.names, alert.subject) == ((KEY,), f"Oncely: {KEY} needs review")
    lines = alert.text.splitlines()
    assert "Reason: two were found" in lines
    assert "Known: provider reference: pi_1" in lines
    assert "Known: customer: customer_7" in lines
    assert "Unknown: the outcome of pi_1 at the provider" in lines
    assert f"Next: oncely show '{KEY}' --stack Oncely-prod" in lines


def test_job_is_due_until_alert_is_delivered(rig: DecisionHarness) -> None:
    other = DecisionHarness()
    result = other.write_decision(Anomalous("two were found"), alerts=FailingNotifier())
    rig.write_decision(Anomalous("two were found"))

    assert result.job == other.row
    assert (other.row.status, other.row.due_at) == (Status.NEEDS_REVIEW, NOW + SWEEP_HOLD)
    assert (rig.row.status, rig.row.due_at) == (Status.NEEDS_REVIEW, None)
    assert [entry.event for entry in rig.row.evidence] == [Event.ESCALATE, Event.ALERT]


def test_business_row_conflict_needs_review_with_outcome(rig: DecisionHarness) -> None:
    rig.store.business_rows.put("orders", ORDER, {"status": "cancelled"})

    assert rig.write_decision(CHARGED, local=PAID).job is not None
    assert rig.row.status is Status.NEEDS_REVIEW
    assert (rig.row.provider_ref, rig.row.result) == ("pi_1", {"charge_id": "ch_1"})
    assert "charged as ch_1, but a business write failed: orders 18452" in rig.alerts.sent[0].text
    assert rig.store.business_rows.get("orders", ORDER) == {**ORDER, "status": "cancelled"}


def test_concurrent_evidence_is_kept(rig: DecisionHarness) -> None:
    rig.apply_event(Event.NOTE)
    rig.write_decision(CHARGED, local=PAID)
    assert rig.row.status is Status.FINISHED
    assert [entry.event for entry in rig.row.evidence] == [Event.NOTE, Event.CONFIRM]


def test_definite_outcome_of_late_worker_is_noted(rig: DecisionHarness) -> None:
    rig.apply_event(Event.MARK_UNKNOWN)

    assert rig.write_decision(CHARGED, local=PAID).job is None
    assert (rig.row.status, rig.row.evidence[-1].event) == (Status.UNKNOWN, Event.NOTE)
    assert "charged as ch_1" in rig.row.evidence[-1].reason
    assert rig.store.business_rows.get("orders", ORDER) == {**ORDER, "status": "pending"}


def test_ambiguous_outcome_of_late_worker_changes_nothing(rig: DecisionHarness) -> None:
    rig.apply_event(Event.MARK_UNKNOWN)
    before = rig.row
    assert (rig.write_decision(Ambiguous("timeout")).job, rig.row) == (None, before)


def test_second_owner_is_never_overwritten(rig: DecisionHarness) -> None:
    rig.store.jobs[KEY] = replace(rig.row, owner="owner-2", version=3, fence=2)
    assert rig.write_decision(CHARGED, local=PAID).job is None
    assert (rig.row.status, rig.row.owner) == (Status.STARTED, "owner-2")
    assert rig.row.evidence[-1].event is Event.NOTE


def test_contradicting_outcome_needs_review_and_never_expires(rig: DecisionHarness) -> None:
    rig.apply_event(Event.DECLINE, expires_at=NOW + timedelta(days=90))
    rig.write_decision(CHARGED)
    assert (rig.row.status, rig.row.expires_at) == (Status.NEEDS_REVIEW, None)
    assert "charged as ch_1" in rig.alerts.sent[0].text


def test_agreeing_outcome_is_noted(rig: DecisionHarness) -> None:
    rig.apply_event(Event.CONFIRM, provider_ref="pi_1")
    rig.write_decision(CHARGED)
    assert (rig.row.status, rig.row.evidence[-1].event) == (Status.FINISHED, Event.NOTE)
    assert rig.alerts.sent == []


@pytest.mark.parametrize("answer", [CHARGED, DECLINED])
def test_outcome_is_orphaned_without_row(
    rig: DecisionHarness, answer: Succeeded | Declined
) -> None:
    rig.store.expire(KEY)

    result = rig.write_decision(answer, local=PAID)

    assert result.job is None
    assert rig.store.jobs == {}
    assert result.orphaned_outcome == f"its row is gone, and now: {answer.reason}"


def test_owner_writes_its_end_until_the_commit_budget_is_spent(rig: DecisionHarness) -> None:
    """Twenty other writes exhaust any number of tries; only time ends these."""

    def note() -> None:
        if rig.row.status is Status.STARTED and rig.row.version < 20:
            rig.apply_event(Event.NOTE)

    note()
    store: Any = InterruptingPort(rig.store, "swap", note)
    assert rig.write_decision(CHARGED, local=PAID, store=store).job == rig.row
    assert (rig.row.status, rig.row.version) == (Status.FINISHED, 21)


@pytest.mark.parametrize(
    ("meanwhile", "answer", "seconds"),
    [
        pytest.param(Event.NOTE, CHARGED, 8, id="its owner, until the commit budget ends"),
        pytest.param(Event.NOTE, Ambiguous("timeout"), 5, id="nothing definite, a few times"),
        pytest.param(Event.MARK_UNKNOWN, CHARGED, 6, id="a late worker, a few times"),
    ],
)
def test_restless_row_raises_unavailable(
    meanwhile: Event, answer: EffectOutcome, seconds: int, rig: DecisionHarness
) -> None:
    def note() -> None:
        rig.clock.advance(seconds=1)
        rig.apply_event(Event.NOTE)

    rig.apply_event(meanwhile)
    with pytest.raises(UnavailableError, match="kept changing"):
        rig.write_decision(answer, store=cast("Any", InterruptingPort(rig.store, "swap", note)))

    assert rig.clock.now() == NOW + timedelta(seconds=seconds)
    assert rig.row.evidence[-1].event is Event.NOTE


def test_reconciler_gives_up_after_a_few_tries(rig: DecisionHarness) -> None:
    """The row stays due. Only an owner has a commit budget."""

    def note() -> None:
        rig.clock.advance(seconds=1)
        rig.apply_event(Event.NOTE)

    rig.apply_event(Event.MARK_UNKNOWN)
    rig.job = rig.row
    note()
    with pytest.raises(UnavailableError, match="kept changing"):
        rig.write_decision(CHARGED, store=cast("Any", InterruptingPort(rig.store, "swap", note)))
    assert rig.clock.now() == NOW + timedelta(seconds=6)


def test_loser_of_a_swap_decides_again(rig: DecisionHarness) -> None:
    """An event made the job due now. The wait that had not seen it would come much later."""
    unknown = rig.row.apply(Event.MARK_UNKNOWN, now=NOW, actor="worker", reason="timeout")
    rig.store.jobs[KEY] = due = replace(unknown, version=unknown.version + 1, due_at=NOW)
    writer = DecisionWriter(store=rig.store, clock=rig.clock, actor="reconciler")

    wait = recheck_at("processing", due_at=NOW + timedelta(minutes=15))
    assert writer.write(unknown, only_for(unknown, wait)) == DecisionResult(None, None)
    assert rig.row == due
    assert writer.write(due, only_for(due, wait)).job == rig.row


def test_outcome_text_cannot_forge_alert_line(rig: DecisionHarness) -> None:
    rig.write_decision(Anomalous("order 1\nNext: do something foolish #", "pi_1"))
    (alert,) = rig.alerts.sent
    assert sum(line.startswith("Next:") for line in alert.text.splitlines()) == 1


BEFORE = make_job(version=1)
WRITE = BEFORE.apply(
    Event.CONFIRM, now=NOW, actor="worker", reason="charged", provider_ref="pi_1", due_at=NOW
)
NOTE = BEFORE.apply(Event.NOTE, now=NOW, actor="worker", reason="a late worker reports")
LATER = NOW + timedelta(minutes=1)


def _add_note(job: JobRow, reason: str = "another late worker") -> JobRow:
    return job.apply(Event.NOTE, now=LATER, actor="worker", reason=reason)


@pytest.mark.parametrize(
    ("row", "arrived"),
    [
        pytest.param(WRITE, True, id="the row is what we wrote"),
        pytest.param(_add_note(WRITE), True, id="it arrived, and someone left evidence since"),
        pytest.param(_add_note(_add_note(WRITE), "once more"), True, id="twice"),
        pytest.param(BEFORE, False, id="the row is what it was before"),
        pytest.param(_add_note(BEFORE), False, id="someone left evidence instead"),
        pytest.param(_add_note(_add_note(BEFORE), "once more"), False, id="and once more"),
        pytest.param(replace(WRITE, owner="owner-9"), False, id="another owner"),
        pytest.param(replace(WRITE, version=1), False, id="another write of that version"),
        pytest.param(
            BEFORE.apply(Event.MARK_UNKNOWN, now=NOW, actor="reconciler", reason="lease over"),
            False,
            id="someone else moved the row",
        ),
        pytest.param(
            replace(WRITE, provider_ref="pi_2", version=5), False, id="with another reference"
        ),
        pytest.param(
            replace(WRITE, status=Status.NEEDS_REVIEW, version=3), False, id="and moved on since"
        ),
        pytest.param(
            replace(WRITE, evidence=_add_note(BEFORE).evidence),
            False,
            id="someone else made the same change",
        ),
    ],
)
def test_write_is_ours_if_all_its_changes_stand(row: JobRow, *, arrived: bool) -> None:
    assert is_our_write(row, before=BEFORE, write=WRITE) is arrived


@pytest.mark.parametrize(
    ("row", "arrived"),
    [
        pytest.param(NOTE, True, id="the row is what we wrote"),
        pytest.param(_add_note(NOTE), True, id="it arrived, and someone left evidence since"),
        pytest.param(_add_note(BEFORE), False, id="someone else's note stands, and not ours"),
        pytest.param(BEFORE, False, id="the row is what it was before"),
    ],
)
def test_note_is_ours_if_its_entry_stands(row: JobRow, *, arrived: bool) -> None:
    assert is_our_write(row, before=BEFORE, write=NOTE) is arrived


def test_write_is_ours_although_an_older_note_was_dropped_for_a_newer_one() -> None:
    note = make_entry(event=Event.NOTE, actor=operator_actor("ada"), reason="seen")
    earlier = [make_entry(reason=f"{number}") for number in range(MAX_EVIDENCE_ENTRIES - 2)]
    before = replace(BEFORE, evidence=(*earlier, note))
    write = before.apply(Event.NOTE, now=NOW, actor="worker", reason="a late worker reports")

    after = _add_note(write)

    assert (note in write.evidence, note in after.evidence) == (True, False)
    assert is_our_write(after, before=before, write=write)


def test_version_only_write_is_ours_if_row_is_equal() -> None:
    write = replace(BEFORE, version=2)
    assert is_our_write(write, before=BEFORE, write=write)
    assert not is_our_write(replace(write, timeouts=1), before=BEFORE, write=write)
