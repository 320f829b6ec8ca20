"""The rules of the life cycle once more: which of them a history breaks, and where.

The engine decides by one table of transitions. If that table or a write is wrong, everything that
is derived from it is wrong in the same way. So these rules share nothing with it but the names of
the statuses: they look only at what was written, in the order of the versions.

A line may be missing, because the history records only some writes, a gap lost it, or a backfill
found only the newest row. So a rule about one write is applied to the line of that write, which has
the status before it, and to two lines whose versions are adjacent. Over a larger distance, a rule
asks only what the writes in between can have done: a claim costs one write, and so does each step
from one status to another.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache
from typing import Final

from oncely.core.job_row import CLOCK_SKEW
from oncely.core.lifecycle import Event, Status
from oncely.history.lines import PREFERENCE, HistoryLine, HistoryRecordType
from oncely.history.restore import RESTORE_ACTOR


class Rule(StrEnum):
    """What a history may not show. The values are printed, and scripts may match them."""

    FIRST_WRITE = "first_write"
    CREATED_TWICE = "created_twice"
    STEP = "step"
    NOT_CLAIMED = "not_claimed"
    NOT_REOPENED = "not_reopened"
    NOT_CONTRADICTED = "not_contradicted"
    TOO_FEW_WRITES = "too_few_writes"
    OTHER_BEFORE = "other_before"
    VERSION_REUSED = "version_reused"
    FENCE = "fence"
    ATTEMPTS = "attempts"
    KEY_NUMBER = "key_number"
    BOUND_VALUE = "bound_value"
    ENDED_REFERENCE = "ended_reference"
    EXPIRY = "expiry"
    REMOVED_EARLY = "removed_early"
    AFTER_REMOVAL = "after_removal"

    @property
    def sentence(self) -> str:
        """The rule, for an operator."""
        return _SENTENCES[self]


_SENTENCES: Final[Mapping[Rule, str]] = {
    Rule.FIRST_WRITE: "the first write of a job makes it ready, started, cancelled or needs review",
    Rule.CREATED_TWICE: "a row is created once",
    Rule.STEP: "a job goes only from one status to another that may follow it",
    Rule.NOT_CLAIMED: "a job starts by a claim, which raises the fence, and by nothing else",
    Rule.NOT_REOPENED: "a job in review runs again only if an operator reopens it, or if no worker "
    "ever claimed it",
    Rule.NOT_CONTRADICTED: "an ended job changes its status only if evidence contradicts it",
    Rule.TOO_FEW_WRITES: "each step from one status to another is a write",
    Rule.OTHER_BEFORE: "a write begins at the status that the write before it made",
    Rule.VERSION_REUSED: "two different writes never have the same version",
    Rule.FENCE: "the fence never falls, and rises by one with each claim",
    Rule.ATTEMPTS: "attempts rise only by claims, and never exceed them",
    Rule.KEY_NUMBER: "the key number rises by one, only after a lookup of an unknown or reviewed "
    "job found nothing",
    Rule.BOUND_VALUE: "what a claim bound to the job never changes",
    Rule.ENDED_REFERENCE: "an ended job keeps its provider reference",
    Rule.EXPIRY: "only an ended job may expire",
    Rule.REMOVED_EARLY: "a row is removed only by TTL, after it has expired",
    Rule.AFTER_REMOVAL: "a removed row does not come back",
}

# What may follow each status by one write. Ended ones are followed by a review, and a review by
# what an operator decides. A job that no worker claimed may also be claimed from there.
_FOLLOWING: Final[Mapping[Status, frozenset[Status]]] = {
    Status.READY: frozenset(
        {Status.STARTED, Status.CANCELLED, Status.NEEDS_REVIEW, Status.UNKNOWN}
    ),
    Status.STARTED: frozenset(
        {Status.READY, Status.UNKNOWN, Status.FINISHED, Status.FAILED}
        | {Status.CANCELLED, Status.NEEDS_REVIEW}
    ),
    Status.UNKNOWN: frozenset(
        {Status.READY, Status.FINISHED, Status.FAILED, Status.CANCELLED, Status.NEEDS_REVIEW}
    ),
    Status.FINISHED: frozenset({Status.NEEDS_REVIEW}),
    Status.FAILED: frozenset({Status.NEEDS_REVIEW}),
    Status.CANCELLED: frozenset({Status.NEEDS_REVIEW}),
    Status.NEEDS_REVIEW: frozenset(
        {Status.STARTED, Status.READY, Status.FINISHED, Status.FAILED, Status.CANCELLED}
    ),
}
_ENDS: Final = frozenset({Status.FINISHED, Status.FAILED, Status.CANCELLED})
_FIRST: Final = frozenset({Status.READY, Status.STARTED, Status.CANCELLED, Status.NEEDS_REVIEW})
_REOPENINGS: Final = frozenset({Event.REOPEN, Event.CLOSE_AND_FAIL})
# A row of these may get another key number: a lookup that found nothing precedes it.
_LOOKED_UP: Final = frozenset({Status.UNKNOWN, Status.NEEDS_REVIEW})
# The first claim sets them, and an erasure removes some.
_BOUND: Final = ("deployment", "provider", "fingerprint", "amount", "currency")
# Equal in two lines of one version, whatever wrote the lines.
_OF_ONE_VERSION: Final = ("fence", "attempts", "key_number", "provider_ref")
# Stream times are in whole seconds.
_TIME_PRECISION: Final = timedelta(seconds=1) + CLOCK_SKEW
_REMOVALS: Final = frozenset({HistoryRecordType.EXPIRED, HistoryRecordType.DELETED})


@dataclass(frozen=True)
class BrokenRule:
    """A rule that the history of a job breaks, and the line where it shows."""

    rule: Rule
    line: HistoryLine

    def __str__(self) -> str:
        return f"{self.line.job_key}, version {self.line.version}: {self.rule.sentence}"


def check_history(lines: Iterable[HistoryLine]) -> Iterator[BrokenRule]:
    """Yield the rules that the history of one job breaks.

    The lines may be in any order, repeat, and belong to several rows of the key: one that a later
    one followed after it expired, or those of a restored table. Each is checked as its own history.
    """
    rows: dict[tuple[object, ...], list[HistoryLine]] = {}
    for line in lines:
        rows.setdefault((line.generation, line.job_key, line.created_at), []).append(line)
    for row in rows.values():
        before: HistoryLine | None = None
        for line in sorted(row, key=_order):
            # A row that cannot be read tells nothing.
            if line.version is None or line.record is HistoryRecordType.UNREADABLE:
                continue
            yield from (BrokenRule(rule, line) for rule in dict.fromkeys(check_line(before, line)))
            before = line


def _order(line: HistoryLine) -> tuple[int, int]:
    return (line.version or 0, PREFERENCE.index(line.record))


def check_line(before: HistoryLine | None, line: HistoryLine) -> Iterator[Rule]:
    """Yield the rules that a line breaks, after the line before it that is known."""
    if before is not None and before.version == line.version:
        if before.status != line.status or _differ(before, line, _OF_ONE_VERSION):
            yield Rule.VERSION_REUSED
        return
    if line.record in _REMOVALS:
        yield from _check_removal(line)
    elif "expires_at" in line.image and line.status not in _ENDS:
        yield Rule.EXPIRY
    # A restore writes what the archive knows over what the restored table holds.
    if line.actor == RESTORE_ACTOR:
        return
    if line.record is HistoryRecordType.CHANGE:
        yield from _check_write(line)
    if _count(line, "attempts") > _count(line, "fence"):
        yield Rule.ATTEMPTS
    if before is None:
        if line.version == 1 and line.record not in _REMOVALS and not _is_first(line):
            yield Rule.FIRST_WRITE
        return
    yield from _check_pair(before, line)


def _is_first(line: HistoryLine) -> bool:
    return line.old_status is None and line.status in _FIRST and _count(line, "fence") <= 1


def _check_write(line: HistoryLine) -> Iterator[Rule]:
    """Check the step that a line tells by itself."""
    old, new, event = line.old_status, line.status, line.event
    if old is None:
        if new not in _FIRST:
            yield Rule.FIRST_WRITE
        elif (new == Status.STARTED) != (_count(line, "fence") == 1):
            yield Rule.NOT_CLAIMED
        return
    if old == new:
        return
    if new not in _following(old):
        yield Rule.NOT_CONTRADICTED if old in _ENDS else Rule.STEP
    elif (new == Status.STARTED) != (event == Event.CLAIM):
        yield Rule.NOT_CLAIMED
    elif old in _ENDS and event is not None and event != Event.CONTRADICT:
        yield Rule.NOT_CONTRADICTED
    elif old == Status.NEEDS_REVIEW and (
        (new == Status.STARTED and _count(line, "fence") != 1)
        or (new == Status.READY and event is not None and event not in _REOPENINGS)
    ):
        yield Rule.NOT_REOPENED


def _check_pair(before: HistoryLine, line: HistoryLine) -> Iterator[Rule]:
    """Check what the writes between two lines did, the later line's own write included."""
    writes = (line.version or 0) - (before.version or 0)
    if before.record in _REMOVALS:
        yield Rule.AFTER_REMOVAL
        return
    if line.record is HistoryRecordType.CHANGE and line.old_status is None:
        yield Rule.CREATED_TWICE
        return
    claims = _rise(before, line, "fence")
    # A row is claimed again only after another write made it claimable.
    is_claimable = before.status in {Status.READY, Status.NEEDS_REVIEW}
    if not 0 <= claims <= (writes + is_claimable) // 2 or (
        writes == 1 and claims != (line.event == Event.CLAIM)
    ):
        yield Rule.FENCE
    # A long job that saved its progress counts attempts anew, from 1.
    if _rise(before, line, "attempts") > max(claims, 0):
        yield Rule.ATTEMPTS
    yield from _check_key_number(before, line, writes)
    if any(
        None not in (old := before.image.get(name), new := line.image.get(name)) and old != new
        for name in _BOUND
    ):
        yield Rule.BOUND_VALUE
    still_ended = before.status in _ENDS and writes == 1 and line.status == before.status
    if still_ended and _differ(before, line, ("provider_ref",)):
        yield Rule.ENDED_REFERENCE
    yield from _check_distance(before, line, writes)


def _check_distance(before: HistoryLine, line: HistoryLine, writes: int) -> Iterator[Rule]:
    if line.record is HistoryRecordType.BACKFILL:
        if not _reachable(before.status, line.status, writes):
            yield Rule.TOO_FEW_WRITES
    # The version of a removal is one more than that of the row.
    elif not _reachable(before.status, line.old_status, writes - 1):
        yield Rule.OTHER_BEFORE if writes == 1 else Rule.TOO_FEW_WRITES


def _check_key_number(before: HistoryLine, line: HistoryLine, writes: int) -> Iterator[Rule]:
    rise = _rise(before, line, "key_number")
    if rise == 0:
        return
    not_looked_up = writes == 1 and before.status not in _LOOKED_UP
    if not 0 < rise <= writes or not_looked_up:
        yield Rule.KEY_NUMBER


def _check_removal(line: HistoryLine) -> Iterator[Rule]:
    expires_at = line.image.get("expires_at")
    expired = expires_at is not None and line.at >= expires_at - _TIME_PRECISION
    by_ttl = line.record is HistoryRecordType.EXPIRED
    if not (line.old_status in _ENDS and by_ttl and expired):
        yield Rule.REMOVED_EARLY


def _count(line: HistoryLine, name: str) -> int:
    count: int = line.image.get(name, 0)
    return count


def _rise(before: HistoryLine, line: HistoryLine, name: str) -> int:
    return _count(line, name) - _count(before, name)


def _differ(line: HistoryLine, copy: HistoryLine, names: Iterable[str]) -> bool:
    return any(line.image.get(name) != copy.image.get(name) for name in names)


@cache
def _reachable(old: str | None, new: str | None, writes: int) -> bool:
    """Whether so many writes can lead from one status to the other."""
    reached = {old}
    for _ in range(min(writes, len(Status))):
        if new in reached:
            break
        reached |= {following for one in reached for following in _following(one)}
    return new in reached


def _following(status: str | None) -> frozenset[Status]:
    return _FOLLOWING.get(Status(status), frozenset()) if status in set(Status) else frozenset()
