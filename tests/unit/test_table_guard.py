"""The guard of the job table: what refuses it, how often it looks, and what it does unanswered."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from oncely.domain.errors import NotConfiguredError, OncelyError, UnavailableError
from oncely.domain.table_identity import LONGEST_INVOCATION, Identity, TableFacts, lost_history
from oncely.ports import TableOpen, TableRefused
from oncely.services.table_guard import (
    CHECK_EVERY,
    MAX_UNCHECKED,
    PROTECTION_CHECK_EVERY,
    RETRY_AFTER,
    CheckedTable,
)
from tests.support.fakes import FakeClock
from tests.unit.samples import NOW, a_job

OURS = Identity(deployment="0123456789abcdef", table_id="T1")
PROTECTED = TableFacts(name="jobs", table_id="T1", has_stream=True, has_ttl=True, has_recovery=True)


@dataclass
class FakeLook:
    """What DynamoDB would answer; `down` names the questions that it does not."""

    item: Identity | None = OURS
    table: TableFacts = PROTECTED
    down: dict[str, OncelyError] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def identity(self) -> Identity | None:
        self._ask("identity")
        return self.item

    def facts(self) -> TableFacts:
        self._ask("facts")
        return replace(self.table, has_ttl=None, has_recovery=None)

    def with_protection(self, facts: TableFacts) -> TableFacts:
        self._ask("protection")
        return replace(facts, has_ttl=self.table.has_ttl, has_recovery=self.table.has_recovery)

    def _ask(self, what: str) -> None:
        self.asked[what] += 1
        if what in self.down:
            raise self.down[what]


@dataclass
class Bench:
    look: FakeLook = field(default_factory=FakeLook)
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.guard = CheckedTable(self.look, self.clock)

    def reason(self) -> str:
        state = self.guard.check()
        assert isinstance(state, TableRefused), state
        return state.reason

    def is_open(self) -> bool:
        return isinstance(self.guard.check(), TableOpen)

    def passes(self, time: timedelta) -> None:
        self.clock.time += time


def test_table_with_own_identity_is_open() -> None:
    assert Bench().guard.check() == TableOpen(deployment="0123456789abcdef")


def test_empty_table_is_blocked_and_names_restore_command() -> None:
    reason = Bench(FakeLook(item=None)).reason()

    assert "no identity item" in reason
    assert "oncely restore-proofs --replacement" in reason
    assert "oncely restore-proofs --copy" in reason


def test_restored_or_copied_table_is_blocked() -> None:
    reason = Bench(FakeLook(table=replace(PROTECTED, table_id="T2"))).reason()

    assert "table id T1, and DynamoDB says T2" in reason
    assert "oncely restore-proofs" in reason


@pytest.mark.parametrize(
    ("lacks", "named"),
    [
        ({"has_stream": False}, "no stream"),
        ({"has_ttl": False}, "no TTL"),
        ({"has_recovery": False}, "no point-in-time recovery"),
    ],
)
def test_unprotected_table_is_blocked(lacks: dict[str, bool], named: str) -> None:
    assert named in Bench(FakeLook(table=replace(PROTECTED, **lacks))).reason()  # type: ignore[arg-type]  # flags by name


def test_check_is_cached_until_next_interval() -> None:
    bench = Bench()
    bench.guard.check()
    bench.passes(CHECK_EVERY - timedelta(seconds=1))
    bench.guard.check()
    assert bench.look.asked["facts"] == 1

    bench.look.table = replace(PROTECTED, table_id="T2")
    bench.passes(timedelta(seconds=1))

    assert not bench.is_open()


def test_blocked_table_is_rechecked_soon() -> None:
    bench = Bench(FakeLook(item=None))
    bench.reason()
    bench.look.item = OURS
    bench.passes(RETRY_AFTER)

    assert bench.is_open()


def test_protection_is_rechecked_seldom_or_for_other_table() -> None:
    bench = Bench()
    for _ in range(10):
        bench.guard.check()
        bench.passes(CHECK_EVERY)
    assert bench.look.asked["protection"] == 1

    bench.passes(PROTECTION_CHECK_EVERY)
    bench.guard.check()
    assert bench.look.asked["protection"] == 2

    bench.look.table = replace(PROTECTED, table_id="T2")
    bench.look.item = replace(OURS, table_id="T2")
    bench.passes(CHECK_EVERY)
    bench.guard.check()
    assert bench.look.asked["protection"] == 3


def test_throttled_protection_check_blocks_no_job() -> None:
    bench = Bench(FakeLook(down={"protection": UnavailableError("throttled")}))

    assert bench.is_open()
    bench.passes(CHECK_EVERY)
    bench.guard.check()
    assert bench.look.asked["protection"] == 2, "asked again until it is answered"


def test_last_good_check_counts_during_short_outage() -> None:
    bench = Bench()
    bench.guard.check()
    bench.look.down["facts"] = UnavailableError("timeout")
    bench.passes(MAX_UNCHECKED - timedelta(seconds=1))
    assert bench.guard.check() == TableOpen(deployment=OURS.deployment)

    bench.passes(CHECK_EVERY)

    assert "could not be checked since" in bench.reason()


def test_outage_does_not_extend_last_good_check() -> None:
    bench = Bench()
    bench.guard.check()
    bench.look.down["identity"] = UnavailableError("timeout")
    for _ in range(int(MAX_UNCHECKED / CHECK_EVERY)):
        bench.passes(CHECK_EVERY)
        bench.guard.check()

    assert not bench.is_open()


def test_blocked_table_stays_blocked_during_outage() -> None:
    bench = Bench()
    bench.guard.check()
    bench.look.item = None
    bench.passes(CHECK_EVERY)
    assert not bench.is_open()
    bench.look.down["facts"] = UnavailableError("timeout")
    bench.passes(RETRY_AFTER)

    assert not bench.is_open()


def test_failed_first_check_blocks_table() -> None:
    assert "timeout" in Bench(FakeLook(down={"facts": UnavailableError("timeout")})).reason()


def test_table_is_blocked_when_access_is_denied() -> None:
    bench = Bench()
    bench.guard.check()
    bench.look.down["facts"] = NotConfiguredError("AccessDeniedException")
    bench.passes(CHECK_EVERY)

    assert "AccessDeniedException" in bench.reason()


def test_threads_share_one_check() -> None:
    bench, start = Bench(), threading.Barrier(8)

    def check(_: int) -> bool:
        start.wait()
        return bench.is_open()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(8)))
    assert bench.look.asked == {"identity": 1, "facts": 1, "protection": 1}


def test_restored_table_opens_after_older_workers_ended() -> None:
    clock = FakeClock()
    restored = replace(
        OURS, restored_at=clock.now(), replays_until=clock.now() + timedelta(days=18)
    )
    bench = Bench(FakeLook(item=restored), clock)

    assert "jobs resume then" in bench.reason()
    bench.passes(LONGEST_INVOCATION)
    assert "jobs resume then" in bench.reason(), "clocks differ a little"
    bench.passes(timedelta(minutes=1))
    assert bench.guard.check() == TableOpen(
        deployment=OURS.deployment, replays_until=restored.replays_until
    )


def test_job_created_before_replay_end_may_have_lost_history() -> None:
    until = NOW + timedelta(days=18)

    assert lost_history(a_job(created_at=NOW - timedelta(days=400)), until)
    assert lost_history(a_job(created_at=until - timedelta(seconds=1)), until)
    assert not lost_history(a_job(created_at=until), until)
    assert not lost_history(a_job(created_at=NOW), None)
