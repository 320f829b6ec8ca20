"""The end of a sweep releases its shards and starts the next page if one is due."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.effect_outcomes import Json
from oncely.operate.own_tables import JOBS
from oncely.reconcile.resolve_group import finish_sweep
from oncely.reconcile.sweeps import SweepLeases
from tests.support.stored_rows import new_account
from tests.unit.samples import NOW

LEASE = timedelta(minutes=1)
NEXT = {"from": "2026-11-16T03:00:00.000000Z"}
MOVED = {"counts": {"finished": 25}, "jobs": []}
STUCK = {"counts": {"error": 25}, "jobs": []}


class FakeSweeps:
    def __init__(self) -> None:
        self.started: list[Mapping[str, Json]] = []

    def start(self, sweep: Mapping[str, Json]) -> None:
        self.started.append(sweep)


def new_leases() -> SweepLeases:
    return SweepLeases(new_account().clients.dynamodb, JOBS)


def make_sweep(**changes: object) -> dict[str, Any]:
    made = {"execution": "one", "shards": [0, 3], "busy": 0, "from": None, "next": None}
    return {**made, **changes}


def finish(sweep: dict[str, Any], *results: Mapping[str, Any]) -> list[Mapping[str, Json]]:
    sweeps: Any = FakeSweeps()
    finish_sweep(sweep, results, leases=new_leases(), sweeps=sweeps)
    return list(sweeps.started)


def test_finish_releases_own_leases_only() -> None:
    leases = new_leases()
    for shard, holder in ((0, "one"), (1, "two"), (3, "one")):
        leases.acquire(shard, holder=holder, now=NOW, until=NOW + LEASE)

    sweeps: Any = FakeSweeps()
    finish_sweep(make_sweep(), [MOVED], leases=leases, sweeps=sweeps)

    lease: Any = {"holder": "three", "now": NOW, "until": NOW + LEASE}
    assert [leases.acquire(shard, **lease) for shard in (0, 1, 3)] == [True, False, True]


@pytest.mark.parametrize("busy", [0, 2])
def test_report_counts_shards_busy_with_other_sweep(busy: int) -> None:
    sweeps: Any = FakeSweeps()
    report = finish_sweep(make_sweep(busy=busy), [], leases=new_leases(), sweeps=sweeps)
    assert report == {"counts": {}, "jobs": [], **({"busy_shards": 2} if busy else {})}


def test_only_incomplete_sweep_starts_next_page_where_it_stopped() -> None:
    assert finish(make_sweep(), MOVED) == []
    assert finish(make_sweep(next=NEXT), MOVED) == [NEXT]


@pytest.mark.parametrize("first", [None, "2026-11-16T02:00:00.000000Z"])
def test_page_of_failing_jobs_does_not_hide_next_one(first: str | None) -> None:
    assert finish(make_sweep(**{"next": NEXT, "from": first}), STUCK) == [NEXT]


def test_page_with_same_start_continues_there_only_after_progress() -> None:
    same = make_sweep(**{"next": {**NEXT, "job_type": "a.b"}, "from": NEXT["from"]})
    assert finish(same, STUCK, MOVED) == [{**NEXT, "job_type": "a.b"}]
    # Rows that always fail and are due at once must not hide those that are due later.
    assert finish(same, STUCK) == [{"from": "2026-11-16T03:00:00.001Z", "job_type": "a.b"}]
