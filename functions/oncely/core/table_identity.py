"""The identity of a deployment, and whether its job table holds the proofs."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from oncely.core.job_row import CLOCK_SKEW, JobRow
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.core.text import format_minute

# The longest Lambda invocation: afterwards no worker from before a restore is running.
MAX_INVOCATION_TIME: Final = timedelta(minutes=15)

_DECLARE_HINT: Final = (
    "If it replaces a lost table, run `oncely restore-proofs`. If a setting names the wrong table, "
    "or a copy of one, fix it and deploy again"
)


@dataclass(frozen=True, kw_only=True)
class TableIdentity:
    """The identity item: the deployment of the rows, and the id of their table."""

    deployment: str
    # Makes the tags of its claims. Nobody who may only insert rows or send messages can read it.
    tag_key: str = field(default="", repr=False, compare=False)
    table_id: str  # DynamoDB's own id, which a restored or copied table does not share
    restored_at: datetime | None = None
    # Until then, messages from before the restore may still arrive.
    replays_until: datetime | None = None

    @property
    def opens_at(self) -> datetime | None:
        """When all workers from before the restore have certainly ended."""
        return self.restored_at and self.restored_at + MAX_INVOCATION_TIME + CLOCK_SKEW


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What DynamoDB says about the job table. None if it did not respond."""

    name: str
    table_id: str
    has_stream: bool
    has_ttl: bool | None = None
    has_recovery: bool | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The features that the table certainly lacks."""
        features = {
            "stream": self.has_stream,
            "TTL": self.has_ttl,
            "point-in-time recovery": self.has_recovery,
        }
        return tuple(name for name, there in features.items() if there is False)


def blocking_reason(
    identity: TableIdentity | None, facts: TableFacts, *, now: datetime
) -> str | None:
    """Why no job of this table may be claimed. Returns None if it holds the proofs."""
    table = "the job table"
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


def may_have_lost_history(job: JobRow, replays_until: datetime | None) -> bool:
    """Whether a restore may have lost an earlier run of this job.

    True for rows from before the restore, and for rows made by messages from before it.
    """
    return replays_until is not None and job.created_at < replays_until


def may_lack_reference(
    job: JobRow, policy: RetryPolicy, replays_until: datetime | None, *, claims: int
) -> bool:
    """Whether earlier `claims` may have left an effect that the row does not name.

    A restore may have lost it. Without idempotency keys, what a run prepared and could not save
    counts as well: a repeat would prepare it a second time.
    """
    if policy.safety is RetrySafety.NATURAL:
        return False
    prepares_blindly = policy.leaves_open and policy.safety is RetrySafety.LOOKUP
    if prepares_blindly and claims and job.provider_ref is None:
        return True
    return may_have_lost_history(job, replays_until)


@dataclass(frozen=True, kw_only=True)
class TableOpen:
    """A job table that holds every proof of this deployment."""

    deployment: str | None  # its identity, for idempotency keys
    replays_until: datetime | None = None  # a job created before then looks up before it executes
    tag_key: str = field(default="", repr=False, compare=False)  # of the tags of its claims

    def has_all_rows(self, now: datetime) -> bool:
        """Return whether a job without a row has never run. A restore may have lost rows."""
        return self.replays_until is None or now >= self.replays_until


@dataclass(frozen=True)
class TableBlocked:
    """A job table that may lack proofs, so Oncely claims and writes nothing."""

    reason: str


TableState: TypeAlias = TableOpen | TableBlocked
