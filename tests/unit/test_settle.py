"""A decision reaches its row, whatever happens to that write; nothing that was learned is lost."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from oncely.contracts.payment_charge import PaymentCharge
from oncely.domain.answers import Answer, Done, Odd, Refused, Unclear
from oncely.domain.decide import decide
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import LOOK_TIME
from oncely.domain.writes import Expect, LocalWrite
from oncely.ports import Alert, Alerts, JobStore
from oncely.services.settle import Settlement, Settler
from oncely.services.tell import Teller
from oncely.testing.memory import MemoryJobStore
from tests.support.fakes import FakeAlerts, FakeClock
from tests.support.mortal import Meanwhile
from tests.support.world import World
from tests.unit.samples import KEY, NOW, TERMS, a_job

CHARGED = Done("charged as ch_1", "pi_1", {"charge_id": "ch_1"})
DECLINED = Refused("declined", "card_declined")
ORDER = {"order_id": "18452"}
PAID = LocalWrite(
    table="orders", key=ORDER, set={"status": "paid"}, expect=(Expect("status", ("pending",)),)
)


class Charge(PaymentCharge):
    """A charge that owes nothing once it has ended, since no mail is sent."""

    terms = TERMS


CONTRACT = Charge(World(mail=None).tools)


@dataclass
class Desk:
    """A row that a worker holds, the order it is for, and a settler."""

    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    alerts: FakeAlerts = field(default_factory=FakeAlerts)
    job: Job = field(default_factory=a_job)
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))

    def __post_init__(self) -> None:
        self.store.create(self.job)
        self.store.business.put("orders", ORDER, {"status": "pending"})

    @property
    def row(self) -> Job:
        return self.store.jobs[KEY]

    def settle(
        self,
        answer: Answer,
        *,
        local: LocalWrite | None = None,
        store: JobStore | None = None,
        alerts: Alerts | None = None,
    ) -> Settlement:
        """Decide about the job as this worker saw it, and settle."""
        teller = Teller(
            store=store or self.store,
            alerts=alerts or self.alerts,
            clock=self.clock,
            actor="worker",
            stack="Oncely-prod",
        )
        settler = Settler(
            store=store or self.store, clock=self.clock, actor="worker", teller=teller
        )
        decision = decide(self.job, TERMS, answer, now=NOW)
        writes = () if local is None else (local,)
        return settler.settle(
            self.job, decision, contract=CONTRACT, answer=answer, local=lambda _: writes
        )

    def becomes(self, event: Event, **changes: object) -> None:
        """Someone else moves the row meanwhile."""
        self.store.jobs[KEY] = self.row.apply(
            event, now=NOW, actor="reconciler", reason=f"meanwhile {event}", **changes
        )


class DeafAlerts:
    """A topic that does not answer."""

    def tell(self, alert: Alert) -> bool:
        return False


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_result_and_business_rows_are_written_together(desk: Desk) -> None:
    settlement = desk.settle(CHARGED, local=PAID)

    assert settlement.job == desk.row
    assert (desk.row.status, desk.row.result) == (Status.FINISHED, {"charge_id": "ch_1"})
    assert desk.store.business.get("orders", ORDER) == {**ORDER, "status": "paid"}
    assert desk.alerts.told == []


def test_escalation_alert_says_known_not_known_and_next(desk: Desk) -> None:
    desk.settle(Odd("two were found", "pi_1"))

    (alert,) = desk.alerts.told
    assert alert.job_key == KEY
    assert alert.subject == f"Oncely: {KEY} needs review"
    lines = alert.text.splitlines()
    assert "Why: two were found" in lines
    assert "Known: the reference at the provider: pi_1" in lines
    assert "Known: the customer: customer_7" in lines
    assert "Not known: what became of pi_1 at the provider" in lines
    assert f"Next: oncely show '{KEY}' --stack Oncely-prod" in lines


def test_job_is_not_due_after_alert(desk: Desk) -> None:
    desk.settle(Odd("two were found"))

    assert (desk.row.status, desk.row.due_at) == (Status.NEEDS_REVIEW, None)
    assert [entry.event for entry in desk.row.evidence] == [Event.ESCALATE, Event.TELL]


def test_job_stays_due_when_alert_fails(desk: Desk) -> None:
    settlement = desk.settle(Odd("two were found"), alerts=DeafAlerts())

    assert settlement.job == desk.row
    assert (desk.row.status, desk.row.due_at) == (Status.NEEDS_REVIEW, NOW + LOOK_TIME)


def test_business_row_conflict_needs_review_with_outcome(
    desk: Desk,
) -> None:
    desk.store.business.put("orders", ORDER, {"status": "cancelled"})

    settlement = desk.settle(CHARGED, local=PAID)

    assert settlement.job is not None
    assert desk.row.status is Status.NEEDS_REVIEW
    assert (desk.row.provider_ref, desk.row.result) == ("pi_1", {"charge_id": "ch_1"})
    assert "charged as ch_1, but the local rows refuse: orders 18452" in desk.alerts.told[0].text
    assert desk.store.business.get("orders", ORDER) == {**ORDER, "status": "cancelled"}


def test_concurrent_evidence_is_kept(desk: Desk) -> None:
    desk.becomes(Event.NOTE)

    desk.settle(CHARGED, local=PAID)

    assert desk.row.status is Status.FINISHED
    assert [entry.event for entry in desk.row.evidence] == [Event.NOTE, Event.CONFIRM]


def test_definite_outcome_of_late_worker_is_noted(desk: Desk) -> None:
    desk.becomes(Event.LOSE)

    settlement = desk.settle(CHARGED, local=PAID)

    assert settlement.job is None
    assert desk.row.status is Status.UNKNOWN
    assert desk.row.evidence[-1].event is Event.NOTE
    assert "charged as ch_1" in desk.row.evidence[-1].reason
    assert desk.store.business.get("orders", ORDER) == {**ORDER, "status": "pending"}


def test_ambiguous_outcome_of_late_worker_changes_nothing(desk: Desk) -> None:
    desk.becomes(Event.LOSE)
    before = desk.row

    settlement = desk.settle(Unclear("timeout"))

    assert (settlement.job, desk.row) == (None, before)


def test_second_owner_is_never_overwritten(desk: Desk) -> None:
    desk.store.jobs[KEY] = replace(desk.row, owner="owner-2", version=3, fence=2)

    settlement = desk.settle(CHARGED, local=PAID)

    assert settlement.job is None
    assert (desk.row.status, desk.row.owner) == (Status.STARTED, "owner-2")
    assert desk.row.evidence[-1].event is Event.NOTE


def test_contradicting_outcome_needs_review_and_never_expires(
    desk: Desk,
) -> None:
    desk.becomes(Event.REFUSE, expires_at=NOW + timedelta(days=90))

    desk.settle(CHARGED)

    assert (desk.row.status, desk.row.expires_at) == (Status.NEEDS_REVIEW, None)
    assert "charged as ch_1" in desk.alerts.told[0].text


def test_agreeing_outcome_is_noted(desk: Desk) -> None:
    desk.becomes(Event.CONFIRM, provider_ref="pi_1")

    desk.settle(CHARGED)

    assert desk.row.status is Status.FINISHED
    assert desk.row.evidence[-1].event is Event.NOTE
    assert desk.alerts.told == []


@pytest.mark.parametrize("answer", [CHARGED, DECLINED])
def test_outcome_is_orphaned_when_row_is_missing(answer: Done | Refused, desk: Desk) -> None:
    desk.store.expire(KEY)

    settlement = desk.settle(answer, local=PAID)

    assert settlement.job is None
    assert desk.store.jobs == {}
    assert settlement.orphan == f"its row is gone, and now: {answer.reason}"


@pytest.mark.parametrize("meanwhile", [Event.NOTE, Event.LOSE])
def test_constantly_changing_row_raises_unavailable(meanwhile: Event, desk: Desk) -> None:
    desk.becomes(meanwhile)
    restless = Meanwhile(desk.store, "swap", lambda: desk.becomes(Event.NOTE))

    with pytest.raises(UnavailableError, match="changed 5 times"):
        desk.settle(CHARGED, store=restless)

    assert desk.row.evidence[-1].event is Event.NOTE


def test_outcome_text_cannot_forge_alert_line(desk: Desk) -> None:
    desk.settle(Odd("order 1\nNext: do something foolish #", "pi_1"))

    (alert,) = desk.alerts.told
    assert sum(line.startswith("Next:") for line in alert.text.splitlines()) == 1
