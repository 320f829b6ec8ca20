"""Restores rows from the history, so that no effect can happen twice."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from oncely.core.decide import escalate, on_restored
from oncely.core.job_row import ENGINE_NUMBER, FIRST_ENGINE, EventRecord, JobRow
from oncely.core.lifecycle import Event, Status
from oncely.history.lines import HistoryLine, HistoryRecordType

RESTORE_ACTOR: Final = "restore"

_STATUSES: Final = {str(status): status for status in Status}


def is_unreadable(line: HistoryLine) -> bool:
    """Whether only a newer version can restore this row."""
    if line.image.get("min_engine", FIRST_ENGINE) > ENGINE_NUMBER:
        return line.record is not HistoryRecordType.EXPIRED
    return line.record is HistoryRecordType.UNREADABLE or (
        line.record is not HistoryRecordType.EXPIRED and _status(line) is None
    )


def restore_row(
    row: JobRow | None, line: HistoryLine | None, *, deployment: str, now: datetime
) -> JobRow | None:
    """The row of a replacement table. Returns None if it stays unchanged.

    A job that has not ended becomes unknown, so that the reconciler looks it up.
    """
    row = None if row is not None and row.is_forged else row  # a message replaces it
    newer = line is not None and _is_newer(line, row)
    image = _image(line, row, now) if newer and line is not None else None
    job = image or row
    if job is None or (image is None and _is_restored(job)):
        return None
    decision = on_restored(job, deployment=deployment, now=now)
    if job.unresolved and image is not None and line and _lacks_message(line, row):
        decision = escalate(
            "restored from the history, which lacks a part of its message: check the provider, "
            "then mark it as done or failed"
        )
    return decision.apply_to(job, now=now, actor=RESTORE_ACTOR)


def _is_restored(row: JobRow) -> bool:
    """Whether an interrupted restore already changed it, or there is nothing to change."""
    if row.waits_for is not None:
        return False
    return not row.unresolved or bool(row.evidence and row.evidence[-1].event is Event.RESTORE)


def _is_newer(line: HistoryLine, row: JobRow | None) -> bool:
    if row is None:
        return True
    # A new row after an expired one starts at version 1 again.
    return (line.created_at or row.created_at, line.version or 0) > (row.created_at, row.version)


def _image(line: HistoryLine, row: JobRow | None, now: datetime) -> JobRow | None:
    """The row of a history line. Returns None if it had expired."""
    status = _status(line)
    if line.record is HistoryRecordType.EXPIRED or status is None:
        return None
    held = line.row(status)
    job = replace(
        held,
        since=held.since or held.updated_at,
        evidence=row.evidence if row is not None else (),
        provider_events=_kept_events(line, row),
    )
    if row is not None and _keeps_message(line, row):
        job = replace(job, message=row.message)
    if not job.ended:
        return replace(job, due_at=now)
    # An ended row without an expiry was not published yet; publishing twice is harmless.
    return replace(job, due_at=None if job.expires_at else now)


def _kept_events(line: HistoryLine, row: JobRow | None) -> tuple[EventRecord, ...]:
    """The events of the row, which no line holds. Those of an earlier run prove nothing."""
    same_run = row is not None and row.created_at == line.created_at
    return row.provider_events if row is not None and same_run else ()


def _keeps_message(line: HistoryLine, row: JobRow | None) -> bool:
    """Whether the row has the message that the line leaves out: neither changes once set."""
    return (
        row is not None
        and "message" in line.left_out
        and row.fingerprint == line.image.get("fingerprint")
    )


def _lacks_message(line: HistoryLine, row: JobRow | None) -> bool:
    return "message" in line.left_out and not _keeps_message(line, row)


def _status(line: HistoryLine) -> Status | None:
    """The status of the row, or the last one of a deleted row."""
    last = line.old_status if line.record is HistoryRecordType.DELETED else line.status
    return _STATUSES.get(last or "")
