"""`oncely restore-proofs`: the newest image of each job, and no repeated effect."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncely.core.effect_outcomes import Json
from oncely.core.ended_jobs import MONEY_RETENTION, mark_published
from oncely.core.job_row import ENGINE_NUMBER, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.store import SwapResult
from oncely.core.table_guard import TableIdentity
from oncely.history.archive import HistoryArchive
from oncely.history.gaps import HistoryGap
from oncely.history.lines import (
    HistoryLine,
    HistoryRecordType,
    backfill_line,
    history_line,
    unreadable_line,
)
from oncely.history.restore import restore_row
from oncely.operate.restore_proofs import Declaration, ProofRestorer, RestoreRefused
from tests.support.fakes import T1, T2, FakeClock, FakeIdentityTable
from tests.support.history_lines import edited
from tests.support.in_memory_stack import InMemoryStack
from tests.support.stored_rows import InspectableStore
from tests.unit.samples import NOW, make_job

KEY = JobKey("payment.charge:order_18452")
LATER = NOW + timedelta(hours=5)
MESSAGE = {"job": "payment.charge", "v": 1, "order_id": "18452"}


def make_charge(**changes: Any) -> JobRow:  # noqa: ANN401  # fields by name
    held = {"job_key": KEY, "message": MESSAGE, "created_at": NOW, "deployment": "dev"}
    return make_job(**{**held, **changes})


def make_line(of: JobRow, **changes: Any) -> HistoryLine:  # noqa: ANN401  # fields by name
    made = history_line(None, of, generation="T1", at=NOW)
    assert made is not None
    return edited(made, **changes)


@dataclass
class RestoreHarness:
    rows: tuple[JobRow, ...] = ()
    lines: tuple[HistoryLine, ...] = ()
    table: FakeIdentityTable = field(default_factory=FakeIdentityTable)
    store: InspectableStore = field(default_factory=InspectableStore)
    clock: FakeClock = field(default_factory=lambda: FakeClock(LATER))

    def __post_init__(self) -> None:
        for row in self.rows:
            self.store.create(row)
        self.history.put(NOW.date(), "payment.charge", "one", self.lines)

    @property
    def world(self) -> InMemoryStack:
        return InMemoryStack(store=self.store, clock=self.clock)

    @property
    def history(self) -> HistoryArchive:
        return self.world.history

    @property
    def service(self) -> ProofRestorer:
        return self.world.app(table_identity=self.table).proof_restorer

    def replace_table(self, **given: Any) -> Declaration:  # noqa: ANN401  # options by name
        done = self.service.replace_table(replays_for=timedelta(days=18), **given)
        assert isinstance(done, Declaration), done
        return done

    def failed_replace_reason(self, **given: Any) -> str:  # noqa: ANN401  # options by name
        done = self.service.replace_table(replays_for=timedelta(days=18), **given)
        assert isinstance(done, RestoreRefused), done
        assert self.table.writes == []
        return done.reason

    def row(self) -> JobRow:
        return self.store.jobs[KEY]


FINISHED = make_charge(
    status=Status.FINISHED,
    version=5,
    provider_ref="pi_1",
    result={"charge_id": "ch_1"},
    expires_at=NOW + timedelta(days=400),
    due_at=None,
)


def test_older_row_becomes_newest_history_image() -> None:
    rig = RestoreHarness((make_charge(status=Status.STARTED, version=3),), (make_line(FINISHED),))

    done = rig.replace_table()

    row = rig.row()
    for name in ("status", "provider_ref", "result", "expires_at"):
        assert getattr(row, name) == getattr(FINISHED, name), name
    assert row.due_at is None
    assert row.version > FINISHED.version
    assert (done.rows_read, done.rows_written, done.unresolved) == (1, 1, 0)


def test_lost_row_is_restored() -> None:
    rig = RestoreHarness((), (make_line(FINISHED),))
    assert rig.replace_table().rows_written == 1
    assert rig.row().status is Status.FINISHED
    assert rig.row().message == MESSAGE


def test_row_newer_than_history_is_kept() -> None:
    newer = replace(FINISHED, version=9)
    rig = RestoreHarness((newer,), (make_line(make_charge(status=Status.STARTED, version=7)),))
    assert rig.replace_table().rows_written == 0
    assert rig.row() == newer


@pytest.mark.parametrize("status", [Status.READY, Status.STARTED, Status.UNKNOWN])
@pytest.mark.parametrize("where", ["row", "history", "both"])
def test_open_job_becomes_unknown_and_due(status: Status, where: str) -> None:
    open_job = make_charge(status=status, version=4, provider_ref="pi_1", lease_until=LATER)
    rig = RestoreHarness(
        () if where == "history" else (open_job,), () if where == "row" else (make_line(open_job),)
    )

    assert rig.replace_table().unresolved == 1
    row = rig.row()
    assert (row.status, row.due_at, row.owner) == (Status.UNKNOWN, LATER, None)
    assert (row.provider_ref, row.evidence[-1].event) == ("pi_1", Event.RESTORE)
    assert row.age_starts_at(LATER) == LATER


def test_unclaimed_job_takes_identity_of_deployment() -> None:
    rig = RestoreHarness((make_charge(status=Status.READY, deployment=None),))
    rig.replace_table()
    assert rig.row().deployment == "dev"


def test_newest_history_line_wins() -> None:
    started = make_charge(status=Status.STARTED, version=2)
    saved = replace(started, version=3, provider_ref="pi_1")
    rig = RestoreHarness((started,), (make_line(saved), make_line(started)))

    rig.replace_table()

    assert rig.row().provider_ref == "pi_1"


@pytest.mark.parametrize("expired", [True, False])
def test_row_is_restored_unless_it_expired(*, expired: bool) -> None:
    gone = history_line(FINISHED, None, generation="T1", at=LATER, expired=expired)
    assert gone is not None
    assert expired or gone.record is HistoryRecordType.DELETED
    rig = RestoreHarness((), (make_line(FINISHED), gone))

    assert rig.replace_table().rows_written == int(not expired)
    assert [job.status for job in rig.store.jobs.values()] == [Status.FINISHED] * (not expired)


@pytest.mark.parametrize(
    ("line", "status", "due_at"),
    [
        (make_line(FINISHED, expires_at=None), Status.FINISHED, LATER),
        (make_line(make_charge(status=Status.NEEDS_REVIEW)), Status.NEEDS_REVIEW, LATER),
        (
            make_line(make_charge(status=Status.STARTED), left_out=("message",)),
            Status.NEEDS_REVIEW,
            LATER,
        ),
    ],
    ids=["unpublished", "review", "open without its whole message"],
)
def test_restored_row_is_due(line: HistoryLine, status: Status, due_at: datetime) -> None:
    rig = RestoreHarness((), (line,))
    rig.replace_table()
    assert (rig.row().status, rig.row().due_at) == (status, due_at)


def test_row_keeps_whole_message_when_history_lacks_it() -> None:
    whole = {**MESSAGE, "note": {"nested": "value"}}
    row = make_charge(status=Status.READY, version=1, message=whole)
    partial = make_line(make_charge(status=Status.STARTED, version=2), left_out=("message",))
    rig = RestoreHarness((row,), (partial,))

    rig.replace_table()

    assert rig.row().message == whole
    assert rig.row().status is Status.UNKNOWN


def test_restore_writes_identity_item_with_new_table_id() -> None:
    rig = RestoreHarness((make_charge(status=Status.STARTED),))

    identity = rig.replace_table().identity

    assert rig.table.writes == [identity]
    assert identity == TableIdentity(
        deployment="dev", table_id="T2", restored_at=LATER, replays_until=LATER + timedelta(days=18)
    )
    assert identity.tag_key == T1.tag_key, "events of emails that were sent before still prove them"


class FailingAfterStore(InspectableStore):
    left = 1

    def swap(self, before: JobRow, after: JobRow, **more: Any) -> SwapResult:  # noqa: ANN401  # as it is
        if not self.left:
            raise ConnectionError("interrupted")
        self.left -= 1
        return super().swap(before, after, **more)


def test_interrupted_restore_resumes_where_it_stopped() -> None:
    rows = tuple(
        make_charge(job_key=JobKey(f"payment.charge:order_{number}"), status=Status.STARTED)
        for number in range(3)
    )
    store = FailingAfterStore()
    rig = RestoreHarness(rows, store=store)
    with pytest.raises(ConnectionError):
        rig.replace_table()
    assert rig.table.writes == [], "the table stays refused"
    store.left = 10

    assert rig.replace_table().rows_written == 2
    assert {row.status for row in store.jobs.values()} == {Status.UNKNOWN}


def test_dry_run_changes_nothing() -> None:
    before = make_charge(status=Status.STARTED)
    rig = RestoreHarness((before,))

    assert rig.replace_table(dry_run=True).rows_written == 1
    assert rig.row() == before
    assert rig.table.writes == []


def test_open_gap_blocks_restore() -> None:
    rig = RestoreHarness((make_charge(status=Status.STARTED),))
    rig.history.record_gap(HistoryGap(name="gap-1", recorded_at=NOW))
    assert "oncely archive backfill" in rig.failed_replace_reason()
    assert rig.row().status is Status.STARTED


def test_history_line_of_newer_version_blocks_restore() -> None:
    strange = unreadable_line(KEY, generation="T1", at=LATER, version=9)
    newer = replace(FINISHED, min_engine=ENGINE_NUMBER + 1)
    erased = make_line(replace(newer, erasure_requested_at=NOW))
    for line in (strange, make_line(FINISHED, status="paused"), make_line(newer), erased):
        assert "cannot read" in RestoreHarness((), (line,)).failed_replace_reason()


def test_table_with_own_identity_needs_no_restore() -> None:
    table = FakeIdentityTable(item=replace(T1, table_id="T2"))
    assert "nothing to declare" in RestoreHarness(table=table).failed_replace_reason()


@pytest.mark.parametrize("lacks", ["has_stream", "has_ttl", "has_recovery"])
def test_table_without_protection_is_not_opened(lacks: str) -> None:
    facts = replace(T2, **{lacks: False})  # type: ignore[arg-type]  # flags by name
    rig = RestoreHarness(table=FakeIdentityTable(table=facts))
    assert "a restore turns it off" in rig.failed_replace_reason()


def test_concurrent_row_change_stops_restore() -> None:
    class Racing(InspectableStore):
        def swap(self, before: JobRow, after: JobRow, **more: Any) -> SwapResult:  # noqa: ANN401
            self.jobs[KEY] = replace(self.jobs[KEY], version=99)
            return super().swap(before, after, **more)

    rig = RestoreHarness((make_charge(status=Status.STARTED),), store=Racing())

    assert "stop the workers" in rig.failed_replace_reason()


def test_identity_comes_from_history_when_item_is_missing() -> None:
    rig = RestoreHarness((), (make_line(FINISHED),), FakeIdentityTable(item=None))
    assert rig.replace_table().identity.deployment == "dev"


def test_identity_is_never_made_up() -> None:
    other = make_line(replace(FINISHED, job_key=JobKey("payment.charge:order_2")), deployment="old")
    rig = RestoreHarness((), (make_line(FINISHED), other), FakeIdentityTable(item=None))

    assert "dev, old" in rig.failed_replace_reason()
    assert "names the identity mine" in rig.failed_replace_reason(identity="mine")
    assert rig.replace_table(identity="dev").identity.deployment == "dev"
    assert "none" in RestoreHarness(table=FakeIdentityTable(item=None)).failed_replace_reason()


def test_other_identity_gets_own_tag_key() -> None:
    """Events of emails that another deployment sent prove nothing here."""
    other = make_line(replace(FINISHED, deployment="old"))
    done = RestoreHarness((), (other,)).replace_table(identity="old")
    assert done.identity.tag_key not in {"", T1.tag_key}


@pytest.mark.parametrize("code", ["card_declined", "a code with spaces"])
def test_closing_job_is_restored_as_closing(code: str) -> None:
    closing: dict[str, Json] = {"reason": "declined", "code": code, "result": {}}
    before = make_charge(status=Status.NEEDS_REVIEW, version=4, provider_ref="pi_1")
    ready = replace(before, status=Status.READY, version=5, closing=closing)
    for row in (None, before):
        found = restore_row(row, make_line(ready), deployment="dev", now=LATER)

        assert found is not None
        assert (found.status, found.provider_ref) == (Status.UNKNOWN, "pi_1")
        assert found.closing is not None, "a worker would charge what an operator had closed"
        assert found.closing["code"] == (code if code == "card_declined" else "closing")


def test_unreadable_line_blocks_restore_when_newest() -> None:
    failed = make_line(replace(FINISHED, status=Status.FAILED, version=5))
    strange = unreadable_line(KEY, generation="T1", at=failed.at, version=6)
    for lines in ((failed, strange), (strange, failed)):
        assert "cannot read" in RestoreHarness((), lines).failed_replace_reason()


def test_unreadable_line_is_ignored_when_newer_line_follows() -> None:
    strange = unreadable_line(KEY, generation="T1", at=NOW - timedelta(days=1), version=6)
    unnamed = unreadable_line(KEY, generation="T1", at=NOW - timedelta(days=1), version=None)
    after = make_line(replace(FINISHED, version=7))
    anew = make_line(replace(FINISHED, version=2), at=NOW + timedelta(days=500))

    for lines in ((strange, after), (after, strange), (unnamed, after), (strange, anew)):
        assert RestoreHarness((), lines).replace_table().rows_written == 1


def test_published_row_is_restored_as_published() -> None:
    owing = replace(FINISHED, due_at=NOW, expires_at=None)
    sent = mark_published(owing, retention=MONEY_RETENTION, now=NOW)
    lines = (make_line(owing), history_line(owing, sent, generation="T1", at=NOW))
    rig = RestoreHarness((), tuple(one for one in lines if one is not None))

    rig.replace_table()

    assert (rig.row().due_at, rig.row().expires_at) == (None, sent.expires_at)


def test_ended_row_is_left_unchanged() -> None:
    line = backfill_line(FINISHED, generation="T1")
    for row, found in ((FINISHED, None), (FINISHED, line), (None, None)):
        assert restore_row(row, found, deployment="dev", now=LATER) is None


def test_new_row_of_expired_key_outranks_old_history() -> None:
    row = replace(FINISHED, created_at=NOW + timedelta(days=1), version=2, expires_at=LATER)
    older = make_line(replace(row, created_at=NOW, version=9))
    assert restore_row(row, older, deployment="dev", now=LATER) is None


def test_review_no_longer_waits_for_message() -> None:
    review = make_charge(status=Status.NEEDS_REVIEW, fence=0, waits_for=WaitKind.MESSAGE)

    restored = restore_row(review, None, deployment="dev", now=LATER)

    assert restored is not None, "a claim after the backup may be lost"
    assert (restored.status, restored.awaits_message) == (Status.NEEDS_REVIEW, False)
    assert restore_row(restored, None, deployment="dev", now=LATER) is None


def test_restored_review_is_as_old_as_before() -> None:
    waits = {"fence": 0, "waits_for": WaitKind.MESSAGE, "since": NOW}
    review = make_charge(status=Status.NEEDS_REVIEW, **waits)
    restored = restore_row(review, None, deployment="dev", now=LATER)
    assert restored is not None
    assert (restored.waits_for, restored.since) == (None, NOW)


def test_message_of_row_without_fingerprint_is_not_taken_for_claimed_one() -> None:
    wrong = make_charge(status=Status.READY, fingerprint=None, message={**MESSAGE, "amount": 1})
    claimed = make_line(make_charge(version=2), left_out=("message",), message=None)

    restored = restore_row(wrong, claimed, deployment="dev", now=LATER)

    assert restored is not None
    assert restored.status is Status.NEEDS_REVIEW
    assert "lacks a part of its message" in str(restored.last_error)
