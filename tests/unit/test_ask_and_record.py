"""Asking about a job records the answer once, with the business rows that follow from it."""

from collections.abc import Callable
from typing import Any

import pytest

from oncely.contracts.job import AnyJob
from oncely.core.ask_and_record import Asked, Inquirer, Question
from oncely.core.attempt import DecisionWriter
from oncely.core.effect_outcomes import (
    Anomalous,
    BusinessWrite,
    Declined,
    LookupOutcome,
    Succeeded,
)
from oncely.core.hints import ReportedState, after_event
from oncely.core.job_row import EventMark, EventRecord, JobRow
from oncely.core.keys import fingerprint
from oncely.core.lifecycle import Event, Status
from oncely.core.table_guard import TableOpen
from oncely.gates.gate import Gate
from oncely.gates.table import GateTable
from oncely.operate.own_tables import GATES
from tests.support.fakes import FakeClock, FakeTableGuard
from tests.support.stored_rows import InspectableStore
from tests.unit.errand_job import PROCEED, make_errand
from tests.unit.samples import NOW, make_job

ORDER = {"order_id": "7"}
FREED = BusinessWrite(table="orders", key=ORDER, set={"freed": True}, may_create=True)


def ask(
    store: InspectableStore,
    row: JobRow,
    contract: AnyJob,
    **why: Any,  # noqa: ANN401  # fields by name
) -> Asked:
    store.jobs[row.job_key] = row
    clock = FakeClock(NOW)
    inquirer = Inquirer(
        gate=Gate(table=GateTable(store.client, GATES), clock=clock),
        clock=clock,
        jitter=lambda: 0.0,
        writer=DecisionWriter(store=store, clock=clock, actor="reconciler"),
        guard=FakeTableGuard(),
    )
    question = Question(
        contract=contract,
        table=TableOpen(deployment=None),
        **(why or {"reported": ReportedState.FAILED}),
    )
    asked = inquirer.ask_and_record(row, question)
    assert isinstance(asked, Asked)
    return asked


@pytest.mark.parametrize("may_fail_later", [True, False])
def test_late_failure_changes_rows_only_if_effect_may_fail_later(*, may_fail_later: bool) -> None:
    """Of other effects, an operator decides what becomes of the rows."""
    store = InspectableStore()
    errand = make_errand(
        asks=lambda _: Declined("it came back", "returned"),
        on_failure=lambda _: (FREED,),
        may_fail_later=may_fail_later,
    )
    row = make_job(status=Status.FINISHED, fingerprint=fingerprint(PROCEED.values))

    assert ask(store, row, errand).result.job == store.jobs[row.job_key]

    assert store.jobs[row.job_key].status is Status.NEEDS_REVIEW
    assert (store.business_rows.get("orders", ORDER) is not None) is may_fail_later


def errand_during_which(
    store: InspectableStore,
    change: Callable[[JobRow], JobRow],
    answer: LookupOutcome,
    *,
    may_fail_later: bool = False,
) -> AnyJob:
    """An errand whose row others change after the provider has answered."""

    def asks(_: object) -> LookupOutcome:
        ((key, row),) = store.jobs.items()
        store.jobs[key] = change(row)
        return answer

    return make_errand(asks=asks, may_fail_later=may_fail_later)


def noted(row: JobRow) -> JobRow:
    return row.apply(Event.NOTE, now=NOW, actor="another", reason="seen")


def hinted(row: JobRow) -> JobRow:
    event = EventRecord(at=NOW, provider="acme", name="changed", mark=EventMark.HINT)
    after = after_event(row, event, NOW)
    assert after is not None
    return after


def contradicted(row: JobRow) -> JobRow:
    return row.apply(Event.CONTRADICT, now=NOW, actor="another", reason="it came back")


def test_contradicted_end_needs_review_although_others_added_to_the_row() -> None:
    """The event is acknowledged after this: nothing else would notice it."""
    store = InspectableStore()
    unclear = Anomalous("the order has another amount now")
    errand = errand_during_which(store, noted, unclear, may_fail_later=True)
    row = make_job(status=Status.FINISHED, fingerprint=fingerprint(PROCEED.values))

    ask(store, row, errand)

    assert store.jobs[row.job_key].status is Status.NEEDS_REVIEW


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Succeeded("was run"), Status.FINISHED),
        (Declined("no funds", "no_funds"), Status.FAILED),
    ],
)
def test_definite_answer_ends_job_although_an_event_came_meanwhile(
    answer: LookupOutcome, status: Status
) -> None:
    store = InspectableStore()
    errand = errand_during_which(store, hinted, answer)
    row = make_job(status=Status.UNKNOWN, fingerprint=fingerprint(PROCEED.values))
    ask(store, row, errand)
    assert store.jobs[row.job_key].status is status


def test_answer_about_an_end_that_is_in_review_by_now_leaves_no_trace() -> None:
    """Whoever moved the row has asked, and no late worker reports anything."""
    store = InspectableStore()
    errand = errand_during_which(store, contradicted, Declined("it came back", "returned"))
    row = make_job(status=Status.FINISHED, fingerprint=fingerprint(PROCEED.values))

    asked = ask(store, row, errand)

    assert (asked.result.job, store.jobs[row.job_key]) == (None, contradicted(row))


def test_operator_looks_up_review_of_another_deployment() -> None:
    """It is noted, and the operator decides: it is in review already."""
    store = InspectableStore()
    row = make_job(status=Status.NEEDS_REVIEW, deployment="another")
    ask(store, row, make_errand(), note="looked up: what happened?")
    after = store.jobs[row.job_key]
    assert (after.status, after.evidence[-1].event) == (Status.NEEDS_REVIEW, Event.NOTE)
