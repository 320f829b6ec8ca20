"""The row of a job that no worker has taken yet: written before, or instead of, its message."""

from datetime import datetime

from oncely.contract import AnyContract, Message
from oncely.domain.jobs import Job, new_job


def row_from_message(
    contract_type: type[AnyContract],
    message: Message,
    *,
    now: datetime,
    due_at: datetime,
    actor: str,
    reason: str,
    owner: str | None = None,
) -> Job:
    """The job that a message asks for, as its contract names it."""
    return new_job(
        contract_type.key(message),
        contract_type.job_type,
        message.to_dict(),
        now=now,
        due_at=due_at,
        actor=actor,
        reason=reason,
        owner=owner,
        subject=contract_type.indexed_subject(message),
    )
