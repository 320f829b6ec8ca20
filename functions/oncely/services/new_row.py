"""The row of a job that no worker has taken yet: written before, or instead of, its message."""

from datetime import datetime

from oncely.contract import AnyContract, Message
from oncely.domain.jobs import Job, enqueued


def new_row(
    kind: type[AnyContract],
    message: Message,
    *,
    now: datetime,
    due_at: datetime,
    actor: str,
    reason: str,
    owner: str | None = None,
) -> Job:
    """The job that a message asks for, as its contract names it."""
    return enqueued(
        kind.key(message),
        kind.job_type,
        message.as_json(),
        now=now,
        due_at=due_at,
        actor=actor,
        reason=reason,
        owner=owner,
        subject=kind.indexed_subject(message),
    )
