"""The guard of the job table: what it blocks, how often it checks, and when it gets no response."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from oncely.core.errors import NotConfiguredError, OncelyError, UnavailableError
from oncely.core.table_guard import (
    CHECK_INTERVAL,
    MAX_INVOCATION_TIME,
    MAX_UNCHECKED,
    PROTECTION_CHECK_INTERVAL,
    RETRY_AFTER,
    TableBlocked,
    TableFacts,
    TableGuard,
    TableIdentity,
    TableOpen,
    may_have_lost_history,
)
from tests.support.fakes import FakeClock
from tests.unit.samples import NOW, make_job

OURS = TableIdentity(deployment="0123456789abcdef", table_id="T1")
PROTECTED = TableFacts(name="jobs", table_id="T1", has_stream=True, has_ttl=True, has_recovery=True)


@dataclass
class FakeTableInspection:
    item: TableIdentity | None = OURS
    table: TableFacts = PROTECTED
    failures: dict[str, OncelyError] = field(default_factory=dict)
    read_counts: Counter[str] = field(default_factory=Counter)

    def identity(self) -> TableIdentity | None:
        self._read("identity")
        return self.item

    def facts(self) -> TableFacts:
        self._read("facts")
        return replace(self.table, has_ttl=None, has_recovery=None)

    def with_protection(self, facts: TableFacts) -> TableFacts:
        self._read("protection")
        return replace(facts, has_ttl=self.table.has_ttl, has_recovery=self.table.has_recovery)

    def _read(self, what: str) -> None:
        self.read_counts[what] += 1
        if what in self.failures:
            raise self.failures[what]


@dataclass
class GuardHarness:
    inspection: FakeTableInspection = field(default_factory=FakeTableInspection)
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.guard = TableGuard(cast("Any", self.inspection), self.clock)  # fails where no AWS does

    def reason(self) -> str:
        state = self.guard.check()
        assert isinstance(state, TableBlocked), state
        return state.reason

    def is_open(self) -> bool:
        return isinstance(self.guard.check(), TableOpen)

    def advance(self, time: timedelta) -> None:
        self.clock.time += time


def test_table_with_own_identity_is_open() -> None:
    assert GuardHarness().guard.check() == TableOpen(deployment="0123456789abcdef")


def test_empty_table_is_blocked_and_names_restore_command() -> None:
    reason = GuardHarness(FakeTableInspection(item=None)).reason()
    assert "no identity item" in reason
    assert "oncely restore-proofs" in reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"table_id": "T2"}, "table id T1, and DynamoDB says T2"),
        ({"has_stream": False}, "no stream"),
        ({"has_ttl": False}, "no TTL"),
        ({"has_recovery": False}, "no point-in-time recovery"),
    ],
)
def test_restored_or_unprotected_table_is_blocked(change: dict[str, Any], reason: str) -> None:
    blocked = GuardHarness(FakeTableInspection(table=replace(PROTECTED, **change))).reason()
    assert reason in blocked
    assert "table_id" not in change or "oncely restore-proofs" in blocked


def test_check_is_cached_until_next_interval() -> None:
    rig = GuardHarness()
    rig.guard.check()
    rig.advance(CHECK_INTERVAL - timedelta(seconds=1))
    rig.guard.check()
    assert rig.inspection.read_counts["facts"] == 1

    rig.inspection.table = replace(PROTECTED, table_id="T2")
    rig.advance(timedelta(seconds=1))

    assert not rig.is_open()


def test_blocked_table_is_rechecked_soon() -> None:
    rig = GuardHarness(FakeTableInspection(item=None))
    rig.reason()
    rig.inspection.item = OURS
    rig.advance(RETRY_AFTER)

    assert rig.is_open()


def test_protection_is_rechecked_seldom_or_for_other_table() -> None:
    rig = GuardHarness()
    for _ in range(10):
        rig.guard.check()
        rig.advance(CHECK_INTERVAL)
    assert rig.inspection.read_counts["protection"] == 1

    rig.advance(PROTECTION_CHECK_INTERVAL)
    rig.guard.check()
    assert rig.inspection.read_counts["protection"] == 2

    rig.inspection.table = replace(PROTECTED, table_id="T2")
    rig.inspection.item = replace(OURS, table_id="T2")
    rig.advance(CHECK_INTERVAL)
    rig.guard.check()
    assert rig.inspection.read_counts["protection"] == 3


def test_throttled_protection_check_blocks_no_job() -> None:
    rig = GuardHarness(FakeTableInspection(failures={"protection": UnavailableError("throttled")}))

    assert rig.is_open()
    rig.advance(CHECK_INTERVAL)
    rig.guard.check()
    assert rig.inspection.read_counts["protection"] == 2, "asked again until it is answered"


@pytest.mark.parametrize("down", ["facts", "identity"])
def test_last_good_check_counts_only_during_short_outage(down: str) -> None:
    rig = GuardHarness()
    rig.guard.check()
    rig.inspection.failures[down] = UnavailableError("timeout")
    for _ in range(int(MAX_UNCHECKED / CHECK_INTERVAL) - 1):
        rig.advance(CHECK_INTERVAL)
        assert rig.guard.check() == TableOpen(deployment=OURS.deployment)
    rig.advance(CHECK_INTERVAL - timedelta(seconds=1))
    assert rig.is_open()

    rig.advance(CHECK_INTERVAL)

    assert "could not be checked since" in rig.reason()


def test_blocked_table_stays_blocked_during_outage() -> None:
    rig = GuardHarness()
    rig.guard.check()
    rig.inspection.item = None
    rig.advance(CHECK_INTERVAL)
    assert not rig.is_open()
    rig.inspection.failures["facts"] = UnavailableError("timeout")
    rig.advance(RETRY_AFTER)

    assert not rig.is_open()


def test_failed_first_check_blocks_table() -> None:
    failing = FakeTableInspection(failures={"facts": UnavailableError("timeout")})
    assert "timeout" in GuardHarness(failing).reason()


def test_table_is_blocked_when_access_is_denied() -> None:
    rig = GuardHarness()
    rig.guard.check()
    rig.inspection.failures["facts"] = NotConfiguredError("AccessDeniedException")
    rig.advance(CHECK_INTERVAL)

    assert "AccessDeniedException" in rig.reason()


def test_threads_share_one_check() -> None:
    rig, start = GuardHarness(), threading.Barrier(8)

    def check(_: int) -> bool:
        start.wait()
        return rig.is_open()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(8)))
    assert rig.inspection.read_counts == {"identity": 1, "facts": 1, "protection": 1}


def test_restored_table_opens_after_older_workers_ended() -> None:
    clock = FakeClock()
    now = clock.now()
    restored = replace(OURS, restored_at=now, replays_until=now + timedelta(days=18))
    rig = GuardHarness(FakeTableInspection(item=restored), clock)

    assert "jobs resume then" in rig.reason()
    rig.advance(MAX_INVOCATION_TIME)
    assert "jobs resume then" in rig.reason(), "clocks differ a little"
    rig.advance(timedelta(minutes=1))
    until = restored.replays_until
    assert rig.guard.check() == TableOpen(deployment=OURS.deployment, replays_until=until)


def test_job_created_before_replay_end_may_have_lost_history() -> None:
    until = NOW + timedelta(days=18)

    assert may_have_lost_history(make_job(created_at=NOW - timedelta(days=400)), until)
    assert may_have_lost_history(make_job(created_at=until - timedelta(seconds=1)), until)
    assert not may_have_lost_history(make_job(created_at=until), until)
    assert not may_have_lost_history(make_job(created_at=NOW), None)
