"""What a restore makes of each row: the newest archived image, and nothing that could act twice."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from oncely.domain.decisions import escalate
from oncely.domain.effect_outcomes import Json
from oncely.domain.history import HistoryLine, HistoryRecordType
from oncely.domain.jobs import MONEY_RETENTION, Job, expiry_time
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.text import single_line

RESTORE_ACTOR: Final = "restore"

_STATUSES: Final = {str(status): status for status in Status}
# Of a line, as a row names them.
_COPIED_FIELDS: Final = (
    *("fence", "attempts", "key_number", "key_scope", "deployment", "fingerprint"),
    *("first_sent_at", "provider_ref", "amount", "currency", "customer_id", "subject"),
)


def is_unreadable(line: HistoryLine) -> bool:
    """Whether a newer version wrote the row: only that version can restore it."""
    return line.record is HistoryRecordType.UNREADABLE or (
        line.record is not HistoryRecordType.EXPIRED and _status(line) is None
    )


def restore_row(
    row: Job | None, line: HistoryLine | None, *, deployment: str, now: datetime
) -> Job | None:
    """The row of a replaced table. Returns None if it stays as it is.

    What has not ended becomes unknown: the reconciler asks for it by deployment and job key.
    """
    newer = line is not None and _is_newer(line, row)
    image = _image(line, row, now) if newer and line is not None else None
    job = image or row
    if job is None or (image is None and _is_restored(job)):
        return None
    if not job.unresolved:
        return job.apply(
            Event.NOTE, now=now, actor=RESTORE_ACTOR, reason="restored from the history"
        )
    if image is not None and row is None and line is not None and "message" in line.left_out:
        decision = escalate(
            "restored from the history, which does not hold all of its message: look at the "
            "provider, then finish or fail it"
        )
        return decision.apply_to(job, now=now, actor=RESTORE_ACTOR)
    reason = f"the job table was restored; it was {job.status}, and its provider is asked"
    return job.apply(
        Event.RESTORE,
        now=now,
        actor=RESTORE_ACTOR,
        reason=reason,
        owner=None,
        # One that no worker had claimed, as far as is known, is this deployment's all the same.
        deployment=job.deployment or deployment,
        lease_until=now,
        due_at=now,
        # The time without the table is no fault of the job's.
        reopened_at=now,
        last_error=single_line(reason),
    )


def park_copied_row(row: Job, *, now: datetime) -> Job | None:
    """The row of a copied table: the deployment that it was copied from does what is open.

    Returns None if it stays as it is.
    """
    if row.unresolved:
        decision = escalate(
            "this table is a copy: the deployment that it was copied from goes on with this job"
        )
        # Who declares a copy knows of these rows: no alert for each.
        return replace(decision.apply_to(row, now=now, actor=RESTORE_ACTOR), due_at=None)
    if row.due_at is None:
        return None
    reason = "this table is a copy: what the job owes is sent where it ran"
    # No publisher comes by to set the expiry, and its contract may not be known here.
    expires_at = expiry_time(now, MONEY_RETENTION) if row.ended else None
    return row.apply(
        Event.NOTE, now=now, actor=RESTORE_ACTOR, reason=reason, due_at=None, expires_at=expires_at
    )


def _is_restored(row: Job) -> bool:
    """Whether there is nothing to change, or an interrupted restore has changed it already."""
    return not row.unresolved or bool(row.evidence and row.evidence[-1].event is Event.RESTORE)


def _is_newer(line: HistoryLine, row: Job | None) -> bool:
    if row is None:
        return True
    # A row that follows an expired one counts its versions anew.
    return (line.created_at or row.created_at, line.version or 0) > (row.created_at, row.version)


def _image(line: HistoryLine, row: Job | None, now: datetime) -> Job | None:
    """The row that a line describes. Returns None if it had expired."""
    status = _status(line)
    if line.record is HistoryRecordType.EXPIRED or status is None:
        return None
    copied: Mapping[str, Any] = {
        name: value for name in _COPIED_FIELDS if (value := getattr(line, name)) is not None
    }
    keeps_message = row is not None and "message" in line.left_out
    job = Job(
        job_key=JobKey(line.job_key),
        job_type=line.job_type,
        status=status,
        # Once set, a job's message never changes.
        message=row.message if keeps_message and row is not None else dict(line.message or {}),
        created_at=line.created_at or line.at,
        updated_at=line.updated_at or line.at,
        version=line.version or 1,
        since=line.at,
        result=None if line.result is None else dict(line.result),
        evidence=row.evidence if row is not None else (),
        closing=_closing(line),
        **copied,
    )
    if not job.ended:
        return replace(job, due_at=now)
    # An end without an expiry still owes something; sending that twice does no harm.
    return replace(job, expires_at=line.expires_at, due_at=None if line.expires_at else now)


def _closing(line: HistoryLine) -> dict[str, Json] | None:
    """Without the mark, a worker would act on what is only to be closed."""
    if line.closing is None:
        return None
    return {"reason": "closed after a restore", "code": line.closing, "result": {}}


def _status(line: HistoryLine) -> Status | None:
    """The status of the row; of one that somebody removed, the last."""
    last = line.old_status if line.record is HistoryRecordType.DELETED else line.status
    return _STATUSES.get(last or "")
