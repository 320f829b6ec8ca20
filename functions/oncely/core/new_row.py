"""The row of a new job, from the message that asks for it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidMessageError, UnavailableError, UnreadableRowError
from oncely.core.job_row import EvidenceEntry, JobRow, new_job
from oncely.core.job_type import AnyJobType
from oncely.core.keys import JobKey
from oncely.core.lifecycle import NO_ROW, Event, WaitKind, next_status
from oncely.core.schedule import later_run_at
from oncely.core.store import AlreadyExists, Created, ForgedRow, JobStore
from oncely.core.surroundings import Alerter
from oncely.core.text import reason_line


def row_from_message(
    contract: AnyJobType,
    *,
    now: datetime,
    due_at: datetime,
    actor: str,
    reason: str,
    owner: str | None = None,
    run_at: datetime | None = None,
) -> JobRow:
    """The row of a job that no worker has claimed yet. One that runs later is due then."""
    return new_job(
        contract.job_key(),
        contract.job_type,
        contract.to_dict(),
        now=now,
        due_at=run_at or due_at,
        actor=actor,
        reason=reason,
        owner=owner,
        subject=contract.indexed_subject(),
        run_at=run_at,
    )


def stranded(job: JobRow) -> JobRow:
    """The new row of a job whose message was dead-lettered. The limit counts from now."""
    return replace(job, waits_for=WaitKind.DEAD_LETTER, since=job.created_at)


def requested_job(
    job: JobRow,
    pending: Callable[[JobRow], Mapping[str, Json]],
    *,
    until: datetime,
    asked: str,
    reason: str,
    actor: str,
) -> JobRow:
    """The new row of a job that waits for a second operator, with the request that is `pending`.

    It is written in this form. A row that was `ready` for a moment would be sent by a sweep. Until
    the request ends there is nothing to alert about, and nothing is sent.
    """
    at = job.created_at
    entry = EvidenceEntry.of_step(NO_ROW, Event.REQUEST, at=at, actor=actor, reason=reason)
    review = replace(job, status=next_status(NO_ROW, Event.REQUEST))
    return replace(
        review,
        since=at,
        due_at=until,
        last_error=reason_line(asked),
        waits_for=WaitKind.MESSAGE,
        pending_repair=pending(review),
        evidence=(entry,),
    )


def run_at_of_row(contract: AnyJobType, now: datetime) -> datetime | None:
    """The time that the writer of a new row sets. Returns None if the job may run now."""
    return later_run_at(
        contract.requested_run_at,
        job_type=contract.job_type,
        schedule_limit=contract.effective_schedule_limit(),
        now=now,
    )


def run_at_of_message(contract: AnyJobType, now: datetime) -> datetime | None:
    """The time that a queue message sets if its job has no row yet. Returns None if it sets none.

    A message asks, a row authorizes: whoever can only send must not hold a payment back.
    """
    if contract.requested_run_at is not None and contract.moves_money():
        raise InvalidMessageError(
            "a message cannot set the time of a job that moves money: "
            + (
                "enqueue it with create_producer(…).enqueue(…, run_at=…), which writes its row, or "
                "ask an operator to reschedule it"
                if contract.effective_schedule_limit()
                else "send it without run_at, when it should run"
            )
        )
    return run_at_of_row(contract, now)


def own_row(store: JobStore, key: JobKey) -> JobRow | None:
    """The row of a job, if it is ours. Returns None if there is none, or it may be forged.

    A row that cannot be read may be ours as well: `create` tells.
    """
    try:
        row = store.get(key)
    except UnreadableRowError:
        return None
    return None if row is None or row.is_forged else row


def create_row(
    store: JobStore, alerter: Alerter, job: JobRow, forged: ForgedRow | None = None
) -> Created | AlreadyExists:
    """Write a new row, also in place of a forged one, if it was found. The alert comes first.

    Raises UnavailableError if it cannot be delivered now: a crash must not lose it.
    """
    result = forged or store.create(job)
    if isinstance(result, ForgedRow):
        if not alerter.alert_forged_row(job.job_key, result.status):
            raise UnavailableError(
                f"no alert was delivered that the row of {job.job_key} is not ours; "
                "it is retried later"
            )
        first, *later = job.evidence
        reason = f"{first.reason}; it replaces a forged row, which was {result.status}"
        job = replace(job, evidence=(replace(first, reason=reason), *later))
        result = store.create(job, replacing=result)
    if isinstance(result, ForgedRow):
        raise UnavailableError(f"the row of {job.job_key} kept changing; it is retried later")
    return result
