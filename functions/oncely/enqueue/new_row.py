"""The row of a new job. Workers write it as well, so it imports nothing else of enqueueing."""

from datetime import datetime

from oncely.contract import AnyContract
from oncely.domain.jobs import Job, new_job
from oncely.domain.schedule import later_run_at
from oncely.message import Message


def row_from_message(
    contract_type: type[AnyContract],
    message: Message,
    *,
    now: datetime,
    due_at: datetime,
    actor: str,
    reason: str,
    owner: str | None = None,
    sent_at: datetime | None = None,
) -> Job:
    """The row of a job that no worker has claimed yet. One that runs later is due then."""
    run_at = later_run_at(message.run_at, now)
    return new_job(
        contract_type.key(message),
        contract_type.job_type,
        message.to_dict(),
        now=now,
        due_at=run_at or due_at,
        actor=actor,
        reason=reason,
        owner=owner,
        subject=contract_type.indexed_subject(message),
        run_at=run_at,
        scheduled_at=sent_at if run_at else None,
    )
