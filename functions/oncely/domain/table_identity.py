"""The identity of a deployment, and whether the job table is the one that holds its proofs."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from oncely.domain.jobs import CLOCK_SKEW, Job
from oncely.domain.text import format_minute

# Lambda ends every invocation by then: no worker that began before a restore can still act.
MAX_INVOCATION_TIME: Final = timedelta(minutes=15)

_DECLARE_HINT: Final = (
    "If it replaces a lost table, run `oncely restore-proofs --replacement`. If it is a copy, run "
    "`oncely restore-proofs --copy`. If a setting names the wrong table, fix it and deploy again"
)


@dataclass(frozen=True, kw_only=True)
class TableIdentity:
    """The identity item: which deployment the rows belong to, and in which table they are."""

    deployment: str
    table_id: str  # DynamoDB's own id: a restored or copied table has another
    restored_at: datetime | None = None
    # Until then a message from before the restore may still arrive.
    replays_until: datetime | None = None

    @property
    def opens_at(self) -> datetime | None:
        """When the workers of the table before the restore are certainly gone."""
        return self.restored_at and self.restored_at + MAX_INVOCATION_TIME + CLOCK_SKEW


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What DynamoDB says about the job table. None where it did not answer."""

    name: str
    table_id: str
    has_stream: bool
    has_ttl: bool | None = None
    has_recovery: bool | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """What the table certainly lacks."""
        features = {
            "stream": self.has_stream,
            "TTL": self.has_ttl,
            "point-in-time recovery": self.has_recovery,
        }
        return tuple(name for name, there in features.items() if there is False)


def blocking_reason(
    identity: TableIdentity | None, facts: TableFacts, *, now: datetime
) -> str | None:
    """Why nothing may be claimed in this table. Returns None if it holds the proofs."""
    table = f"the job table {facts.name}"
    if identity is None:
        return (
            f"{table} has no identity item, so it is not known which jobs have run. Nothing was "
            f"claimed. {_DECLARE_HINT}"
        )
    if identity.table_id != facts.table_id:
        return (
            f"{table} was restored or copied: its identity item names the table id "
            f"{identity.table_id}, and DynamoDB says {facts.table_id}. Rows may be missing or old, "
            f"so nothing was claimed. {_DECLARE_HINT}"
        )
    if facts.missing:
        return (
            f"{table} has no {', no '.join(facts.missing)}. "
            "Nothing was claimed. Enable what is missing, or deploy the stack again"
        )
    if identity.opens_at is not None and now < identity.opens_at:
        return (
            f"{table} was restored. A worker that began before may run until "
            f"{format_minute(identity.opens_at)}: jobs resume then, without any action"
        )
    return None


def may_have_lost_history(job: Job, replays_until: datetime | None) -> bool:
    """Whether a restore may have lost what an earlier run of this job did.

    Rows from before the restore, and rows that a message from before it made anew.
    """
    return replays_until is not None and job.created_at < replays_until
