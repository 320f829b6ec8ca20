"""Checks the job table at start and every minute: effects need a table that holds the proofs.

A table restored under the same name keeps its workers warm, so a check at start is not enough. A
restore takes longer than a minute.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from oncely.core.aws_errors import translated, write_conditionally
from oncely.core.effect_outcomes import NotFound
from oncely.core.errors import OncelyError, UnavailableError
from oncely.core.job_row import CLOCK_SKEW, JobRow
from oncely.core.keys import JobKey, job_type_of
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.core.schedule import Clock
from oncely.core.text import format_minute, format_time, parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_Answer = TypeVar("_Answer")

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
    # As in `TableOpen`. Only `set_lookup` writes it: after a restore, nothing is known.
    lookups: Mapping[str, str] = field(default_factory=dict, hash=False)

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
    # By job type: that its lookup has found an effect, or the finished job on which it is tried.
    lookups: Mapping[str, str] = field(default_factory=dict, hash=False)

    def must_prove(self, job_type: str, policy: RetryPolicy) -> bool:
        """Whether no lookup of this job type has found an effect yet, as its policy demands."""
        demanded = policy.must_prove_lookup and policy.can_look_up
        return demanded and self.lookups.get(job_type) != PROVED

    def tries_lookup(self, key: JobKey) -> bool:
        """Whether the lookup of its job type is tried on this job."""
        return self.lookups.get(job_type_of(key)) == key

    def believed(self, answer: _Answer, job_type: str, policy: RetryPolicy) -> _Answer | NotFound:
        """The answer of a lookup, marked if it is an absence that proves nothing."""
        if not isinstance(answer, NotFound) or not self.must_prove(job_type, policy):
            return answer
        return NotFound(
            f"{answer.reason}; no lookup of {job_type} has found an effect in this deployment yet, "
            "so its absence proves nothing: check the lookup's path and what it reads as absent",
            unproved=True,
        )

    def has_all_rows(self, now: datetime) -> bool:
        """Return whether a job without a row has never run. A restore may have lost rows."""
        return self.replays_until is None or now >= self.replays_until


@dataclass(frozen=True)
class TableBlocked:
    """A job table that may lack proofs, so Oncely claims and writes nothing."""

    reason: str


TableState: TypeAlias = TableOpen | TableBlocked


# No job type is spelled without a dot, so no job has this key. The item has none of the attributes
# that an index is made over, so no list, count or sweep shows it.
IDENTITY_KEY: Final = "deployment:identity"
_TIMES: Final = ("restored_at", "replays_until")
# Of the attributes that say what is known of the lookup of a job type: `PROVED`, or a job key.
LOOKUP_PREFIX: Final = "lookup:"
PROVED: Final = "proved"
_ENABLED_STATES: Final = frozenset({"ENABLED", "ENABLING"})
_T = TypeVar("_T")


@dataclass(frozen=True)
class DynamoTableIdentity:
    """The job table as the guard reads it, with the only writes of its identity item."""

    client: "DynamoDBClient"
    table: str

    def identity(self) -> TableIdentity | None:
        item = self._call(
            lambda: self.client.get_item(
                TableName=self.table, Key={"job_key": {"S": IDENTITY_KEY}}, ConsistentRead=True
            )
        ).get("Item")
        if item is None or not {"identity", "table_id"} <= item.keys():
            return None
        times = {name: parse_time(item[name]["S"]) for name in _TIMES if name in item}
        return TableIdentity(
            deployment=item["identity"]["S"],
            table_id=item["table_id"]["S"],
            tag_key=item["tag_key"]["S"] if "tag_key" in item else "",
            restored_at=times.get("restored_at"),
            replays_until=times.get("replays_until"),
            lookups={
                name.removeprefix(LOOKUP_PREFIX): value["S"]
                for name, value in item.items()
                if name.startswith(LOOKUP_PREFIX)
            },
        )

    def facts(self) -> TableFacts:
        found: Any = self._call(lambda: self.client.describe_table(TableName=self.table))["Table"]
        return TableFacts(
            name=self.table,
            table_id=found.get("TableId", ""),
            has_stream=bool(found.get("StreamSpecification", {}).get("StreamEnabled")),
        )

    def with_protection(self, facts: TableFacts) -> TableFacts:
        ttl: Any = self._call(lambda: self.client.describe_time_to_live(TableName=self.table))
        client, name = self.client, self.table
        backups: Any = self._call(lambda: client.describe_continuous_backups(TableName=name))
        recovery = backups["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        return replace(
            facts,
            has_ttl=ttl["TimeToLiveDescription"].get("TimeToLiveStatus") in _ENABLED_STATES,
            has_recovery=recovery.get("PointInTimeRecoveryStatus") in _ENABLED_STATES,
        )

    def is_empty(self) -> bool:
        request: Any = {"TableName": self.table, "Limit": 1, "ConsistentRead": True}
        return not self._call(lambda: self.client.scan(**request)).get("Items")

    def write(self, identity: TableIdentity, *, replacing: TableIdentity | None) -> bool:
        """Write the item over the one that was read. Returns False if it has changed."""
        item: dict[str, Any] = {
            "job_key": {"S": IDENTITY_KEY},
            "identity": {"S": identity.deployment},
            "table_id": {"S": identity.table_id},
            "tag_key": {"S": identity.tag_key},
            **{name: {"S": format_time(at)} for name in _TIMES if (at := getattr(identity, name))},
        }
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(table_id)"}
        if replacing is not None:
            condition = {
                "ConditionExpression": "#identity = :identity AND table_id = :table",
                "ExpressionAttributeNames": {"#identity": "identity"},
                "ExpressionAttributeValues": {
                    ":identity": {"S": replacing.deployment},
                    ":table": {"S": replacing.table_id},
                },
            }
        put = partial(self.client.put_item, TableName=self.table, Item=item, **condition)
        return self._call(lambda: write_conditionally(put))

    def set_lookup(self, job_type: str, value: str, *, expected: str | None) -> bool:
        """Set or remove what is known of a lookup. Returns False if it is not as expected."""
        # An update must not make the item.
        condition = {
            None: "attribute_exists(job_key)",
            "": "attribute_exists(job_key) AND attribute_not_exists(#lookup)",
        }
        values = {":value": value, ":expected": expected}
        update = partial(
            self.client.update_item,
            TableName=self.table,
            Key={"job_key": {"S": IDENTITY_KEY}},
            UpdateExpression="SET #lookup = :value" if value else "REMOVE #lookup",
            ConditionExpression=condition.get(expected, "#lookup = :expected"),
            ExpressionAttributeNames={"#lookup": LOOKUP_PREFIX + job_type},
            ExpressionAttributeValues={name: {"S": one} for name, one in values.items() if one},
        )
        return self._call(lambda: write_conditionally(update))

    def _call(self, send: Callable[[], _T]) -> _T:
        check = "that the table exists and that this role may read, describe and write it"
        with translated("the identity of the job table", name=self.table, check=check):
            return send()


CHECK_INTERVAL: Final = timedelta(minutes=1)
# TTL and recovery are checked less often: DescribeContinuousBackups is limited to 10 calls per
# second and account. A failed check blocks nothing: a new table is recognized by its id.
PROTECTION_CHECK_INTERVAL: Final = timedelta(minutes=15)
# After a blocked or failed check.
RETRY_AFTER: Final = timedelta(seconds=10)
# DynamoDB's control plane may be down for this long while its tables work.
MAX_UNCHECKED: Final = timedelta(minutes=10)


@dataclass
class TableGuard:
    """The state of the job table, checked once for all threads of a process."""

    inspector: DynamoTableIdentity
    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _state: TableState | None = None
    _next_check: datetime | None = None
    _confirmed_at: datetime | None = None  # when the table was last confirmed
    _protection: TableFacts | None = None
    _protection_at: datetime | None = None

    def check(self) -> TableState:
        """Whether jobs may be claimed now."""
        with self._lock:
            # The wall clock: after a freeze, the last result is old.
            now = self.clock.now()
            if self._state is None or self._next_check is None or now >= self._next_check:
                self._state = self._inspect(now)
                open_ = isinstance(self._state, TableOpen)
                self._next_check = now + (CHECK_INTERVAL if open_ else RETRY_AFTER)
            return self._state

    def prove_lookup(self, job_type: str) -> None:
        """Record that a lookup of this job type has found an effect."""
        self._set_lookup(job_type, PROVED)

    def try_lookup(self, key: JobKey) -> None:
        """Have a sweep look up the effect of a finished job, unless it tries one of its type."""
        self._set_lookup(job_type_of(key), key, expected="")

    def end_lookup_trial(self, key: JobKey) -> None:
        """Look up the effect of this job no more. The next success of its type is tried."""
        self._set_lookup(job_type_of(key), "", expected=key)

    def _set_lookup(self, job_type: str, value: str, *, expected: str | None = None) -> None:
        """Write what is known of a lookup. If that fails, the next lookup or success writes it."""
        with self._lock:
            state = self._state
            if not isinstance(state, TableOpen):
                return
            known = state.lookups.get(job_type, "")
            if known == value or expected not in {None, known}:
                return
            with suppress(OncelyError):
                if self.inspector.set_lookup(job_type, value, expected=expected):
                    lookups = {**state.lookups, job_type: value}
                    self._state = replace(state, lookups=lookups)
                else:
                    self._next_check = None  # another process wrote it

    def _inspect(self, now: datetime) -> TableState:
        try:
            identity, facts = self.inspector.identity(), self.inspector.facts()
        except UnavailableError as error:
            return self._on_unavailable(now, error)
        except OncelyError as error:
            return TableBlocked(f"the job table cannot be checked: {error}")
        reason = blocking_reason(identity, self._with_protection(facts, now), now=now)
        if reason is not None or identity is None:
            return TableBlocked(reason or "")
        self._confirmed_at = now
        return TableOpen(
            deployment=identity.deployment,
            replays_until=identity.replays_until,
            tag_key=identity.tag_key,
            lookups=identity.lookups,
        )

    def _on_unavailable(self, now: datetime, error: UnavailableError) -> TableState:
        """Keep the last open state for a while: an outage of the control plane stops no jobs."""
        seen = self._confirmed_at
        if seen is not None and now - seen < MAX_UNCHECKED and isinstance(self._state, TableOpen):
            return self._state
        since = "" if seen is None else f" since {format_minute(seen)}"
        return TableBlocked(f"the job table could not be checked{since}; it is retried: {error}")

    def _with_protection(self, facts: TableFacts, now: datetime) -> TableFacts:
        known, at = self._protection, self._protection_at
        fresh = at is not None and now - at < PROTECTION_CHECK_INTERVAL
        if known is None or known.table_id != facts.table_id or not fresh or known.missing:
            try:
                known = self.inspector.with_protection(facts)
            except OncelyError:
                known = facts  # unknown: checked again next time
            else:
                self._protection_at = now
            self._protection = known
        return replace(facts, has_ttl=known.has_ttl, has_recovery=known.has_recovery)
