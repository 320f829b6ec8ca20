"""Many processes at one gate, on an engine whose conditional writes are real."""

from collections import Counter
from datetime import timedelta
from functools import partial
from itertools import pairwise

from oncely.gates.gate import GateState, Pause, PauseAction, PauseEntry, open_circuit, take_probe
from oncely.gates.table import GateTable
from oncely.jobs.payment_charge import PaymentCharge
from tests.bench.gate_overhead import measure
from tests.conformance.samples import time_at
from tests.integration.test_races import PATIENT, WORKERS, run_concurrently
from tests.support import engines
from tests.support.dynamo import DynamoFixture

GATE = "acme:effects"
INTERVAL = timedelta(milliseconds=40)
SLOTS = 5


def gate_tables(dynamo: DynamoFixture) -> list[GateTable]:
    return [dynamo.gates(dynamo.separate_client(config=PATIENT)) for _ in range(WORKERS)]


def test_no_slot_is_leased_twice(dynamo: DynamoFixture) -> None:
    """The gate is idle at first, then busy, then idle again."""
    tables, slots = gate_tables(dynamo), []
    for seconds in (0, 0, 1, 3600):
        now = time_at(seconds)
        leases = run_concurrently(
            [
                partial(
                    table.lease,
                    GATE,
                    count=SLOTS,
                    interval=INTERVAL,
                    now=now,
                    latest=now + timedelta(minutes=5),
                )
                for table in tables
            ]
        )
        for leased in leases:
            assert len(leased) == SLOTS
            slots += [one.begins for one in leased]
            assert min(slots[-SLOTS:]) >= now
    assert len(slots) == len(set(slots)) == 4 * WORKERS * SLOTS
    ordered = sorted(slots)
    assert all(later - first >= INTERVAL for first, later in pairwise(ordered))


def test_one_process_opens_circuit_and_one_probes(dynamo: DynamoFixture) -> None:
    tables, opened = gate_tables(dynamo), open_circuit(GateState(), time_at(0))
    assert opened is not None
    opening = [partial(table.change_circuit, GATE, opened) for table in tables]
    assert Counter(run_concurrently(opening)) == {True: 1, False: WORKERS - 1}

    probing = take_probe(tables[0].read().state(GATE), time_at(60))
    assert probing is not None
    taking = [partial(table.change_circuit, GATE, probing) for table in tables]
    assert Counter(run_concurrently(taking)) == {True: 1, False: WORKERS - 1}


def test_one_operator_pauses(dynamo: DynamoFixture) -> None:
    entry = PauseEntry(at=time_at(0), action=PauseAction.PAUSE, actor="ada", reason="prices")
    pause = Pause(target=PaymentCharge.job_type, entries=(entry,))
    pausing = [partial(table.write_pause, pause) for table in gate_tables(dynamo)]
    assert Counter(run_concurrently(pausing)) == {True: 1, False: WORKERS - 1}


def test_gate_costs_a_fifth_of_a_write_unit_at_most() -> None:
    with engines.moto() as url:
        fast = measure(DynamoFixture(url), limit=200, jobs_per_second=100, workers=20, seconds=20)
        slow = measure(DynamoFixture(url), limit=25, jobs_per_second=25, workers=4, seconds=40)
    assert fast.writes_per_job <= 0.2
    assert fast.worst_second <= 201
    assert slow.writes_per_job <= 0.3
    assert slow.worst_second <= 26
