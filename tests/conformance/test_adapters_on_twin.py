"""Every request of the adapters is answered alike by DynamoDB in memory and by a real engine."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from oncely.alerts.budget import AlertCause, AlertKind
from oncely.alerts.budgeted_notifier import DynamoAlertBudget
from oncely.aws.business_tables import BusinessTable
from oncely.core.due import DueAction, due_shard
from oncely.core.errors import UnavailableError
from oncely.core.hints import after_event
from oncely.core.inserter import JobInserter, UniqueWindow
from oncely.core.job_row import EventMark, EventRecord, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import TRANSITIONS, Event, Status, WaitKind
from oncely.core.store import ForgedRow, JobStore
from oncely.gates.gate import (
    GateState,
    Pause,
    PauseAction,
    PauseEntry,
    close_circuit,
    open_circuit,
    take_probe,
)
from oncely.gates.table import GateTable
from oncely.operate.job_index import JobIndex
from oncely.reconcile.due_index import DueIndex
from oncely.reconcile.sweeps import SweepLeases
from tests.conformance.samples import make_claim, make_ready_job, paid_order_write, time_at
from tests.conformance.twin import TABLES, Twin
from tests.support.dynamo import DynamoFixture
from tests.support.load_size import choose_size

pytestmark = [pytest.mark.mass, pytest.mark.timeout(1200)]
SEQUENCES = choose_size(8, full=400)
STEPS = 25
JOBS, GATES, ORDERS, EVENTS = (
    TABLES[short] for short in ("jobs", "gates", "orders", "import_events")
)
KEYS = (JobKey("payment.charge:first"), JobKey("payment.charge:second"))
ORDER = {"order_id": "18452"}
GATE = "acme:effects"
KIND = AlertKind(cause=AlertCause.REVIEW, job_type="payment.charge", reason="order … is odd")
FINGERPRINTS = (None, "fingerprint-1", "fingerprint-1", "fingerprint-2")
CLAIMS = {Event.CLAIM, Event.CLAIM_REVIEW}
EVENTS_BY_STATUS = {
    status: [event for source, event in TRANSITIONS if source is status and event not in CLAIMS]
    for status in Status
}


class Play:
    """The shipped adapters over both, and what a worker, a producer or a sweep does with them."""

    def __init__(self, twin: Twin, draw: Random) -> None:
        self.draw, client = draw, twin.client
        tables = {"orders": ORDERS}
        self.store = JobStore(client=client, table=JOBS, tables=tables, sleep=lambda _seconds: None)
        self.inserter = JobInserter(client, self.store)
        self.due = DueIndex(client, JOBS)
        self.finder = JobIndex(client, JOBS)
        self.leases = SweepLeases(client, JOBS)
        self.budget = DynamoAlertBudget(client, JOBS)
        self.gates = GateTable(client, GATES)
        self.orders = BusinessTable(client, ORDERS, "orders")
        self.events = BusinessTable(client, EVENTS, "import_events")
        self.twin = twin
        self.step = 0
        self.seen: dict[JobKey, list[JobRow]] = {key: [] for key in KEYS}

    def one(self, *choices: Any) -> Any:  # noqa: ANN401  # any of them
        return self.draw.choice(choices)

    def is_drawn(self, chance: float = 0.5) -> bool:
        return self.draw.random() < chance

    def perform(self) -> None:
        self.step += 1
        verb, key = self.one(*VERBS), self.one(*KEYS)
        with suppress(UnavailableError):  # a retry that always loses, on both
            getattr(self, verb)(key)
        row = self.store.get(key)
        if row is not None and row not in self.seen[key][-1:]:
            self.seen[key].append(row)

    def create(self, key: JobKey) -> None:
        job = self._new_job(key)
        found = self.store.create(job)
        if isinstance(found, ForgedRow):
            self.store.create(job, replacing=found)

    def insert(self, key: JobKey) -> None:
        self.inserter.insert(self._new_job(key))

    def insert_unique(self, key: JobKey) -> None:
        window = UniqueWindow(
            name="nightly", now=time_at(self.step), until=time_at(self.step + self.one(1, 5, 60))
        )
        replacing = self.one(None, *KEYS)
        self.inserter.insert_unique(self._new_job(key), window, replacing=replacing)

    def claim(self, key: JobKey) -> None:
        claim = make_claim(
            f"owner-{self.step}",
            job_key=key,
            now=time_at(self.step),
            fingerprint=self.one(*FINGERPRINTS),
            subject=self.one(None, "18452"),
        )
        row = self.store.get(key)
        if row is not None and row.awaits_message:
            claim = replace(claim, reopens=row)
        if self.is_drawn(0.3):
            other = KEYS[1 - KEYS.index(key)]
            seen = self.one(None, (), (time_at(1),))
            claim = replace(claim, requires_failed=other, previous_resubmissions=seen)
        self.store.claim(claim)

    def swap(self, key: JobKey) -> None:
        back = self.one(1, 1, 1, 2, 3)
        if len(self.seen[key]) < back:
            return
        before = self.seen[key][-back]
        event = self.one(*EVENTS_BY_STATUS[before.status])
        changes: dict[str, object] = {}
        if event is not Event.NOTE:
            changes["due_at"] = self.one(None, time_at(1000 + self.step))
        if event is Event.CONFIRM:
            changes["result"] = {"step": self.step, "rate": 0.1}
        if event is Event.ESCALATE:
            changes["waits_for"] = self.one(None, *WaitKind)
        after = before.apply(
            event, now=time_at(self.step), actor="worker", reason=str(event), **changes
        )
        write = paid_order_write(key=ORDER, set={"status": "paid"}, may_create=self.is_drawn())
        self.store.swap(before, after, business_writes=self.one((), (write,)))

    def save_event(self, key: JobKey) -> None:
        if self.seen[key]:
            before = self.one(*self.seen[key][-2:])
            event = EventRecord(
                at=time_at(self.step), provider="ses", name="Send", mark=EventMark.PROOF, fence=1
            )
            if after := after_event(before, event, event.at):
                self.store.swap(before, after)

    def put_order(self, _: JobKey) -> None:
        item = {"order_id": {"S": "18452"}, "status": {"S": self.one("payment_pending", "paid")}}
        item["amount"] = {"N": self.one("1250", "1250.0", "1")}
        self.twin.send("put_item", {"TableName": ORDERS, "Item": item})

    def update_order(self, _: JobKey) -> None:
        self.orders.update(paid_order_write(key=ORDER, must_be_new=self.is_drawn()))
        self.orders.get(ORDER)

    def remove(self, key: JobKey) -> None:
        self.twin.send("delete_item", {"TableName": JOBS, "Key": {"job_key": {"S": key}}})

    def sweep(self, key: JobKey) -> None:
        shard = due_shard(key, self.due.shards)
        until = self.one(time_at(self.step), time_at(2000))
        list(self.due.due(self.one(*DueAction), shard, since=None, until=until))
        now = time_at(self.step)
        self.leases.acquire(shard, holder=self.one("a", "b"), now=now, until=time_at(self.step + 3))
        self.leases.release(shard, holder="a")

    def find(self, key: JobKey) -> None:
        self.finder.by_subject("18452", limit=self.one(1, 5))
        self.finder.by_customer("customer_7", limit=5)
        self.finder.count((Status.NEEDS_REVIEW, Status.FAILED), since=None, limit=self.one(1, 9))
        list(self.finder.by_status((Status.NEEDS_REVIEW,), oldest_first=self.is_drawn()))
        self.finder.get_many([*KEYS, key])

    def alert(self, key: JobKey) -> None:
        now, later = time_at(self.step), time_at(self.step + 3)
        self.budget.count(KIND, now=time_at(self.step * self.one(1, 1, 4000)))
        self.budget.reserve(KIND, key, now=now, until=later)
        self.budget.keep(KIND, key, until=later)

    def lease_slots(self, _: JobKey) -> None:
        now = time_at(self.step * self.one(1, 1, 60))
        count, interval = self.one(1, 500), timedelta(milliseconds=40)
        latest = now + timedelta(seconds=self.one(0, 20))
        self.gates.lease(GATE, count=count, interval=interval, now=now, latest=latest)
        change = self.one(open_circuit, close_circuit, take_probe)
        after: GateState | None = change(self.gates.read().state(GATE), now)
        if after is not None:
            after = replace(after, revision=self.one(after.revision, None))
            self.gates.change_circuit(GATE, after)

    def pause(self, _: JobKey) -> None:
        known = self.gates.read().pauses.get("payment.charge")
        action = self.one(PauseAction.PAUSE, PauseAction.RESUME)
        entry = PauseEntry(at=time_at(self.step), action=action, actor="ada", reason="prices")
        after = (known or Pause(target="payment.charge")).with_entry(entry)
        self.gates.write_pause(replace(after, revision=self.one(after.revision, None)))

    def delete_events(self, _: JobKey) -> None:
        for event in self.draw.choices("abc", k=2):
            item = {"record_id": {"S": "crm#1"}, "event_id": {"S": event}}
            self.twin.send("put_item", {"TableName": EVENTS, "Item": item})
        partition = {"record_id": "crm#1"}
        self.events.delete_partition(partition, sort="event_id", dry_run=self.is_drawn())

    def _new_job(self, key: JobKey) -> JobRow:
        return make_ready_job(
            key,
            status=self.one(Status.READY, Status.READY, Status.UNKNOWN),
            created_at=time_at(self.step),
            fingerprint=self.one(*FINGERPRINTS),
            fence=self.one(None, 1),
        )


# How often each is drawn: most operations on a row are swaps and claims.
VERBS = (
    *["swap"] * 10,
    *["claim"] * 6,
    *["create", "save_event"] * 2,
    *("insert", "insert_unique", "remove", "put_order", "update_order", "sweep", "find"),
    *("alert", "lease_slots", "pause", "delete_events"),
)


@settings(max_examples=SEQUENCES, deadline=None, derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_adapters_get_same_answers(twin_engine: DynamoFixture, seed: int) -> None:
    # A failure prints the seed, so that its calls can be made again.
    twin = Twin(twin_engine, (JOBS, GATES, ORDERS, EVENTS))
    play = Play(twin, Random(seed))  # noqa: S311  # no secret
    for _ in range(STEPS):
        play.perform()
    twin.check_rows()
