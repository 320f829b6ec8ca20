"""The rules over history lines: each damage is found, and what may happen breaks none."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.decide import escalate
from oncely.core.job_row import JobRow, new_job
from oncely.core.lifecycle import Event, WaitKind
from oncely.history.checker import Rule, check_history
from oncely.history.lines import (
    HistoryLine,
    HistoryRecordType,
    backfill_line,
    change_line,
    history_line,
    unreadable_line,
)
from oncely.history.restore import restore_row
from oncely.history.verify import verify_history
from tests.support.history_lines import edited
from tests.unit.samples import KEY, NOW, claim_row, make_claim

TABLE = "table-1"
MINUTE = timedelta(minutes=1)
EXPIRY = NOW + timedelta(days=400)


def move(job: JobRow, event: Event, **changes: Any) -> JobRow:  # noqa: ANN401  # as `apply` takes them
    now = job.updated_at + MINUTE
    return job.apply(event, now=now, actor="worker", reason="", **changes)


def rows_of_job() -> list[JobRow]:
    """Sent twice, since nothing was found the first time; then contradicted and resolved."""
    ready = new_job(
        KEY, "payment.charge", {"order_id": "1"}, now=NOW, due_at=NOW, actor="producer", reason=""
    )
    claimed = claim_row(ready, make_claim(now=NOW + MINUTE, deployment="ours"))
    prepared = move(claimed, Event.CHECKPOINT, provider_ref="pi_1")
    unknown = move(prepared, Event.MARK_UNKNOWN)
    requeued = move(unknown, Event.REQUEUE, key_number=2)
    again = claim_row(requeued, make_claim(now=requeued.updated_at + MINUTE))
    finished = move(again, Event.CONFIRM, result={"id": "ch_1"})
    published = move(finished, Event.NOTE, expires_at=EXPIRY)
    doubted = move(published, Event.CONTRADICT, expires_at=None)
    resolved = move(doubted, Event.RESOLVE_FAILED)
    expiring = move(resolved, Event.NOTE, expires_at=EXPIRY)
    return [
        *(ready, claimed, prepared, unknown, requeued, again),
        *(finished, published, doubted, resolved, expiring),
    ]


def lines_of_job() -> list[HistoryLine]:
    rows = rows_of_job()
    changes = [
        history_line(old, new, generation=TABLE, at=NOW)
        for old, new in zip([None, *rows], [*rows, None], strict=True)
    ]
    lines = [line for line in changes if line is not None]
    expired = edited(lines[-1], record=HistoryRecordType.EXPIRED, at=EXPIRY + MINUTE)
    return [*lines[:-1], expired]


def broken(lines: Sequence[HistoryLine]) -> set[Rule]:
    return {one.rule for one in check_history(lines)}


READY, CLAIM, PREPARED, UNKNOWN, REQUEUED, AGAIN, FINISHED, PUBLISHED, DOUBTED, *_, LAST = range(12)


def test_legal_history_breaks_no_rule() -> None:
    assert broken(lines_of_job()) == set()


def test_lost_repeated_and_shuffled_lines_break_no_rule() -> None:
    lines = lines_of_job()
    for lost in range(len(lines)):
        assert broken([*lines[:lost], *lines[lost + 1 :], *lines]) == set()
        assert broken([*lines[:lost], *lines[lost + 1 :]]) == set()
        assert broken(lines[lost:]) == set()
    assert broken([*reversed(lines), *lines]) == set()
    assert broken(lines[::3]) == set()


def test_backfill_of_any_version_breaks_no_rule() -> None:
    rows = rows_of_job()
    lines = [backfill_line(row, generation=TABLE) for row in rows]
    assert broken([*lines, *lines_of_job()]) == set()
    for row in rows:
        assert broken([*lines_of_job(), backfill_line(row, generation=TABLE)]) == set()
        assert broken([backfill_line(row, generation=TABLE)]) == set()


def test_next_row_of_expired_key_is_its_own_history() -> None:
    later = timedelta(days=500)
    second = [
        edited(
            line,
            created_at=NOW + later,
            expires_at=line.image.get("expires_at") and line.at + 2 * later,
        )
        for line in lines_of_job()[:-1]
    ]
    assert broken([*lines_of_job(), *second]) == set()


@pytest.mark.parametrize("version", [None, 1, 3])
def test_row_that_cannot_be_read_breaks_no_rule(version: int | None) -> None:
    one = unreadable_line(KEY, generation=TABLE, at=NOW, version=version)
    assert broken([*lines_of_job(), one]) == set()


def test_restored_row_breaks_no_rule() -> None:
    rows = rows_of_job()
    for before in (None, *rows):
        for line in lines_of_job():
            after = restore_row(before, line, deployment="d", now=EXPIRY)
            if after is not None:
                assert broken([change_line(before, after, generation="table-2")]) == set()


def test_review_that_was_never_claimed_may_be_claimed() -> None:
    ready = rows_of_job()[0]
    decision = escalate("wrong", waits_for=WaitKind.MESSAGE)
    review = decision.apply_to(ready, now=NOW + MINUTE, actor="worker")
    claimed = claim_row(review, make_claim(now=NOW + 2 * MINUTE, reopens=review))
    written = zip([None, ready, review], [ready, review, claimed], strict=True)
    assert broken([change_line(old, new, generation=TABLE) for old, new in written]) == set()


def changed(index: int, **changes: Any) -> Callable[[list[HistoryLine]], list[HistoryLine]]:  # noqa: ANN401  # fields of a line
    def damage(lines: list[HistoryLine]) -> list[HistoryLine]:
        lines[index] = edited(lines[index], **changes)
        return lines

    return damage


def inserted(index: int, **changes: Any) -> Callable[[list[HistoryLine]], list[HistoryLine]]:  # noqa: ANN401  # fields of a line
    return lambda lines: [*lines, edited(lines[index], **changes)]


DAMAGES: dict[str, tuple[Callable[[list[HistoryLine]], list[HistoryLine]], Rule]] = {
    "an ended job starts": (
        changed(DOUBTED, status="started", event="claim", fence=3),
        Rule.NOT_CONTRADICTED,
    ),
    "an end follows an end": (
        changed(DOUBTED, status="failed", event="decline"),
        Rule.NOT_CONTRADICTED,
    ),
    "an ended job is reviewed without a contradiction": (
        changed(DOUBTED, event="escalate"),
        Rule.NOT_CONTRADICTED,
    ),
    "a reviewed job starts": (
        changed(DOUBTED + 1, status="started", event="claim", fence=3, attempts=3),
        Rule.NOT_REOPENED,
    ),
    "a reviewed job is ready, and nobody reopened it": (
        changed(DOUBTED + 1, status="ready", event="release"),
        Rule.NOT_REOPENED,
    ),
    "an unknown job starts": (
        changed(REQUEUED, status="started", event="claim", fence=2),
        Rule.STEP,
    ),
    "a job starts without a claim": (changed(AGAIN, event="requeue"), Rule.NOT_CLAIMED),
    "a claim ends the job": (changed(FINISHED, event="claim"), Rule.NOT_CLAIMED),
    "a job is first seen finished": (
        changed(READY, status="finished", event="confirm"),
        Rule.FIRST_WRITE,
    ),
    "a later line creates a finished job": (
        lambda lines: [edited(lines[FINISHED], old_status=None)],
        Rule.FIRST_WRITE,
    ),
    "a backfill finds two claims in the first version": (
        lambda _: [backfill_line(replace(rows_of_job()[AGAIN], version=1), generation=TABLE)],
        Rule.FIRST_WRITE,
    ),
    "a job is first seen in its second run": (
        lambda lines: [edited(lines[CLAIM], old_status=None, fence=2)],
        Rule.NOT_CLAIMED,
    ),
    "the first version is not the first write": (
        changed(READY, old_status="ready"),
        Rule.FIRST_WRITE,
    ),
    "a row is created over another": (changed(UNKNOWN, old_status=None), Rule.CREATED_TWICE),
    "a write begins at another status": (
        changed(UNKNOWN, old_status="ready", status="ready", event="park"),
        Rule.OTHER_BEFORE,
    ),
    "two steps are one write": (
        lambda lines: [
            *lines[:DOUBTED],
            edited(lines[DOUBTED], record=HistoryRecordType.BACKFILL, status="ready"),
        ],
        Rule.TOO_FEW_WRITES,
    ),
    "two writes have one version": (
        inserted(FINISHED, status="failed", event="decline"),
        Rule.VERSION_REUSED,
    ),
    "the fence falls": (changed(FINISHED, fence=1), Rule.FENCE),
    "the fence rises without a claim": (changed(UNKNOWN, fence=2), Rule.FENCE),
    "the fence rises without a start": (
        changed(CLAIM, status="ready", event="park"),
        Rule.FENCE,
    ),
    "the fence rises more often than claims were possible": (
        lambda lines: [lines[CLAIM], edited(lines[FINISHED], fence=9)],
        Rule.FENCE,
    ),
    "attempts rise without a claim": (changed(AGAIN, attempts=1), Rule.ATTEMPTS),
    "a job has more attempts than claims": (
        lambda lines: [edited(lines[CLAIM], attempts=2)],
        Rule.ATTEMPTS,
    ),
    "the key number rises while started": (
        lambda lines: [*lines[:FINISHED], edited(lines[FINISHED], key_number=3)],
        Rule.KEY_NUMBER,
    ),
    "the key number falls": (
        lambda lines: [lines[REQUEUED], edited(lines[FINISHED], key_number=1)],
        Rule.KEY_NUMBER,
    ),
    "another deployment continues": (changed(FINISHED, deployment="other"), Rule.BOUND_VALUE),
    "the values of the job change": (changed(FINISHED, fingerprint="other"), Rule.BOUND_VALUE),
    "a finished job has another reference": (
        changed(PUBLISHED, provider_ref="pi_2"),
        Rule.ENDED_REFERENCE,
    ),
    "a row in review may expire": (changed(DOUBTED, expires_at=EXPIRY), Rule.EXPIRY),
    "a row that has not ended is removed": (
        changed(LAST, old_status="unknown"),
        Rule.REMOVED_EARLY,
    ),
    "a row is removed before it expires": (changed(LAST, at=EXPIRY - MINUTE), Rule.REMOVED_EARLY),
    "a row is deleted": (changed(LAST, record=HistoryRecordType.DELETED), Rule.REMOVED_EARLY),
    "a removed row comes back": (inserted(LAST - 1, version=20), Rule.AFTER_REMOVAL),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_history_is_found(damage: str) -> None:
    change, rule = DAMAGES[damage]
    assert rule in broken(change(lines_of_job()))


def test_every_rule_has_a_damage_and_a_sentence() -> None:
    assert {rule for _, rule in DAMAGES.values()} == set(Rule)
    assert all(rule.sentence for rule in Rule)


def test_archive_is_verified_job_by_job() -> None:
    """The lines of jobs are mixed, as in an archive, and one of 2,000 jobs is damaged."""
    rows = lines_of_job()
    lines = [
        edited(line, job_key=f"payment.charge:order_{number}")
        for line in rows
        for number in range(2_000)
    ]
    at = 2_000 * UNKNOWN + 7
    lines[at] = edited(lines[at], expires_at=EXPIRY)
    reports: list[tuple[int, int]] = []

    found = list(verify_history(lines, report=lambda *counts: reports.append(counts)))

    assert [str(one) for one in found] == [
        "payment.charge:order_7, version 4: only an ended job may expire"
    ]
    assert (reports[0], reports[-1]) == ((0, len(lines)), (len(lines), len(lines)))


def test_status_of_newer_version_is_a_broken_step() -> None:
    assert Rule.STEP in broken(changed(UNKNOWN, status="parked")(lines_of_job()))
