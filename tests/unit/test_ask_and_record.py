"""Asking about a job records the answer once, with the business rows that follow from it."""

from dataclasses import replace

import pytest

from oncely.contracts.contract import AnyContract
from oncely.core.ask_and_record import Asked, Inquirer, Question
from oncely.core.attempt import DecisionWriter
from oncely.core.effect_outcomes import BusinessWrite, Declined
from oncely.core.hints import ReportedState
from oncely.core.job_row import JobRow
from oncely.core.keys import fingerprint
from oncely.core.lifecycle import Status
from oncely.core.table_guard import TableOpen
from oncely.gates.gate import Gate
from oncely.gates.table import GateTable
from oncely.operate.own_tables import GATES
from tests.support.fakes import FakeClock
from tests.support.stored_rows import InspectableStore
from tests.unit.errand_contract import MESSAGE, PROCEED, Errand, make_errand
from tests.unit.samples import NOW, TERMS, make_job

ORDER = {"order_id": "7"}


class _Freeing(Errand):
    def on_failure(self, facts: str, job: JobRow) -> tuple[BusinessWrite, ...]:
        return (BusinessWrite(table="orders", key=ORDER, set={"freed": True}, may_create=True),)


def ask(store: InspectableStore, row: JobRow, contract: AnyContract) -> Asked:
    store.jobs[row.job_key] = row
    clock = FakeClock(NOW)
    inquirer = Inquirer(
        gate=Gate(table=GateTable(store.client, GATES), clock=clock),
        clock=clock,
        jitter=lambda: 0.0,
        writer=DecisionWriter(store=store, clock=clock, actor="reconciler"),
    )
    question = Question(
        contract=contract,
        message=MESSAGE,
        table=TableOpen(deployment=None),
        reported=ReportedState.FAILED,
    )
    asked = inquirer.ask_and_record(row, question)
    assert isinstance(asked, Asked)
    return asked


@pytest.mark.parametrize("may_fail_later", [True, False])
def test_late_failure_changes_rows_only_if_effect_may_fail_later(*, may_fail_later: bool) -> None:
    """Of other effects, an operator decides what becomes of the rows."""
    store = InspectableStore()
    errand = make_errand(asks=lambda _: Declined("it came back", "returned"))
    terms = replace(TERMS, may_fail_later=may_fail_later)
    contract = type("Freeing", (_Freeing, type(errand)), {"policy": terms})(errand.dependencies)
    row = make_job(status=Status.FINISHED, fingerprint=fingerprint(PROCEED.values))

    assert ask(store, row, contract).result.job == store.jobs[row.job_key]

    assert store.jobs[row.job_key].status is Status.NEEDS_REVIEW
    assert (store.business_rows.get("orders", ORDER) is not None) is may_fail_later
