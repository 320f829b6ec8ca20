"""The contract: the one class that defines a job type."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from oncely.contracts.dependencies import Dependencies
from oncely.contracts.description import (
    RETRY_DESCRIPTIONS,
    ContractDescription,
    Description,
)
from oncely.contracts.message import Message
from oncely.contracts.resources import Resources
from oncely.core.effect_outcomes import (
    Anomalous,
    BusinessWrite,
    EffectOutcome,
    Json,
    LookupUnsupported,
    Pending,
    Prepared,
    Reserved,
    Succeeded,
)
from oncely.core.ended_jobs import MONEY_RETENTION, PROOF_RETENTION
from oncely.core.erasure import DataOwner
from oncely.core.job_row import JobRow
from oncely.core.keys import (
    MAX_IDEMPOTENCY_KEY_LENGTH,
    IdempotencyKey,
    JobKey,
    claim_tag,
    idempotency_key,
    indexable_id,
)
from oncely.core.lifecycle import Event
from oncely.core.money import Money
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.core.schedule import DEFAULT_SCHEDULE_LIMIT
from oncely.core.text import format_duration
from oncely.plugins.provider import AnyProvider

M = TypeVar("M", bound=Message)
F = TypeVar("F")


@dataclass(frozen=True, kw_only=True)
class Proceed(Generic[F]):
    """A precheck that passed, with the facts that the effect needs."""

    facts: F
    values: Mapping[str, object]  # the resolved business values; the fingerprint covers these
    # The name of the plug-in, if business rows choose one of `policies`. Part of `values` as well.
    provider: str | None = None
    customer_id: str | None = None  # makes the job searchable by it, for one index entry per job
    money: Money | None = None  # the amount that the effect moves, for the admin page
    requires_failed: JobKey | None = None


@dataclass(frozen=True, kw_only=True)
class AlreadyResolved(Generic[F]):
    """A precheck that determines the outcome: already done, or impossible to do."""

    outcome: Succeeded | Anomalous
    facts: F | None = None
    values: Mapping[str, object] | None = None
    provider: str | None = None
    customer_id: str | None = None
    money: Money | None = None
    writes: tuple[BusinessWrite, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NotThereYet(Generic[F]):
    """A precheck whose business rows may still arrive. Retried for the contract's grace period."""

    waits_for: str  # completes "waits for …": "order 18452 to exist"
    facts: F | None = None  # if they are enough to look up an earlier run
    values: None = None
    provider: None = None


@dataclass(frozen=True)
class Mismatch:
    """A conflict between the message and the business rows, found before any call."""

    reason: str


PrecheckResult: TypeAlias = Proceed[F] | AlreadyResolved[F] | NotThereYet[F] | Mismatch


@dataclass(frozen=True, kw_only=True)
class EffectCall(Generic[F]):
    """One attempt at an effect: the current job and the facts of its precheck."""

    job: JobRow
    facts: F
    max_key_length: int = MAX_IDEMPOTENCY_KEY_LENGTH
    verified: bool = False  # this run created or verified the saved reference
    tag_key: str = field(default="", repr=False)  # of the deployment
    has_time_for: Callable[[timedelta], bool] = lambda _: True
    save_progress: Callable[[Mapping[str, Json]], None] = lambda _: None  # fenced

    def idempotency_key(self, step: str) -> IdempotencyKey:
        """Return the idempotency key of a step, the same for every attempt."""
        job = self.job
        return idempotency_key(
            job.job_key,
            step,
            job.key_number,
            deployment=job.deployment,
            max_length=self.max_key_length,
        )

    @property
    def claim_tag(self) -> str:
        """The tag by which the provider's events prove what this claim sent."""
        job = self.job
        return claim_tag(job.job_key, deployment=job.deployment, fence=job.fence, key=self.tag_key)


@dataclass(eq=False)
class Contract(ABC, Generic[M, F]):
    """A job type. Class attributes define it; an instance runs it."""

    job_type: ClassVar[str]
    # A class variable cannot be typed with M.
    message: ClassVar[type[Message]]
    # The shortest message of a producer, by `model_construct`: a test validates it, no cold start.
    example: ClassVar[Message]
    policy: ClassVar[RetryPolicy]
    # By the name of the plug-in, if business rows choose it. An instance has its job's policy.
    policies: ClassVar[Mapping[str, RetryPolicy]] = {}
    resources: ClassVar[Resources]
    description: ClassVar[Description]
    takes_money: ClassVar[bool] = False  # included in the answer to "was I charged twice?"
    returns_money: ClassVar[bool] = False  # an audit looks for its refunds
    # How long the row of an ended job is kept as proof that it ran. The default is the stage's row
    # retention for a natural effect, 7 years for one that takes money, and 400 days otherwise.
    proof_retention: ClassVar[timedelta | None] = None
    # How far ahead a `run_at` is honored. The default is 0, so none, for a job that moves money,
    # and 365 days otherwise. If you lower it, jobs that are scheduled further ahead run early.
    schedule_limit: ClassVar[timedelta | None] = None
    limits_resubmissions: ClassVar[bool] = False  # `requires_failed` obeys the stage's limits
    publishes_events: ClassVar[bool] = False  # publish each ended job on the event bus
    personal_fields: ClassVar[tuple[str, ...]] = ()  # of the message: personal data
    # Whose data it is. `oncely erase` finds the rows by it.
    owner: ClassVar[DataOwner | None] = None

    dependencies: Dependencies
    provider: str | None = None  # of the job that this instance runs or looks up

    def __post_init__(self) -> None:
        """Use the policy and the secrets of the job's provider."""
        self.secret_names = self.resources.secret_names
        if self.policies:
            self.secret_names = self.resources.secrets_by_provider.get(self.provider or "", ())
            vars(self)["policy"] = self.policies.get(self.provider or "", self.policy)

    @classmethod
    def policy_of(cls, job: JobRow) -> RetryPolicy:
        """Return the policy of a job, by the provider in its row."""
        return cls.policies.get(job.provider or "", cls.policy)

    @classmethod
    def all_policies(cls) -> tuple[RetryPolicy, ...]:
        """Return the policies of all its providers."""
        return tuple(cls.policies.values()) or (cls.policy,)

    @classmethod
    @cache
    def max_duration(cls) -> timedelta:
        """Return how long a run may take at the slowest of its providers."""
        return max(policy.max_duration for policy in cls.all_policies())

    @classmethod
    @abstractmethod
    def key(cls, message: M) -> JobKey:
        """Return the business identity of the job. Use only values of the message."""

    @classmethod
    def subject(cls, message: M) -> str | None:
        """Return the business id that support agents search by. Returns None if there is none.

        Each row is indexed by it, unless `keys_for_subject` derives the keys.
        """
        del message
        return None

    @classmethod
    def effective_retention(cls, row_retention: timedelta | None) -> timedelta:
        """Return how long the row is kept after the job has ended and was published."""
        if cls.proof_retention:
            return cls.proof_retention
        if cls.policy.safety is RetrySafety.NATURAL and row_retention is not None:
            return row_retention
        return MONEY_RETENTION if cls.takes_money else PROOF_RETENTION

    @classmethod
    def moves_money(cls) -> bool:
        """Return whether it takes or returns money."""
        return cls.takes_money or cls.returns_money

    @classmethod
    def message_schema(cls) -> dict[str, Any]:
        """Return the JSON schema of a queue message, which cannot set the time of a payment."""
        schema = cls.message.model_json_schema()
        if cls.moves_money():
            del schema["properties"]["run_at"]
        return schema

    @classmethod
    def effective_schedule_limit(cls) -> timedelta:
        """Return how far ahead a `run_at` is honored: 0 if none is."""
        if cls.schedule_limit is not None:
            return cls.schedule_limit
        return timedelta(0) if cls.moves_money() else DEFAULT_SCHEDULE_LIMIT

    @classmethod
    def keys_for_subject(cls, subject: str) -> Iterator[JobKey]:
        """Derive every key that a business id can have, in the order of use.

        A search reads these keys, so rows need no index entry.
        """
        del subject
        return iter(())

    @classmethod
    def indexed_subject(cls, message: M) -> str | None:
        """Return the business id to index the row by. Returns None if its keys can be derived."""
        # Compare functions: each access creates a new bound method.
        derives_keys = cls.keys_for_subject.__func__ is not Contract.keys_for_subject.__func__  # type: ignore[attr-defined]  # of a class method
        return None if derives_keys else indexable_id(cls.subject(message))

    @classmethod
    def resubmission(cls, message: M) -> Message | None:
        """Return the message that resubmits a declined job. Returns None if there is none."""
        del message
        return None

    @classmethod
    def success_summary(cls, job: JobRow) -> str:
        """Describe a finished job for a support agent."""
        if job.is_unconfirmed:
            verb = cls.description.done_verb
            return f"The business rows say it was {verb}. No provider confirmed it."
        return f"Done: {cls.description.success}"

    @classmethod
    def tenant(cls, values: Mapping[str, Json]) -> str | None:
        """Return the tenant, for a fair share of the queue. Returns None if there is none.

        `values` are the fields of the message, and the customer of a claimed job.
        """
        customer = values.get("customer_id")
        return customer if isinstance(customer, str) else None

    @classmethod
    def uniqueness_key(cls, message: M) -> str:
        """Return what `unique_for` keeps unique: the key, or a part of it for a repeatable job."""
        return cls.key(message)

    @abstractmethod
    def precheck(self, message: M) -> "PrecheckResult[F]":
        """Read the business rows before Oncely claims the job or calls the provider."""

    def key_scope(self) -> str:
        """Return the scope in which idempotency keys are unique now. A retry needs the same."""
        return ""

    def prepare(self, call: EffectCall[F]) -> Prepared | Reserved | EffectOutcome | None:
        """Create the reference or reservation to save before `execute`, if one is needed."""
        del call
        return None

    def find_prepared(self, call: EffectCall[F]) -> Prepared | EffectOutcome | None:
        """Find the prepared reference that a restored row lacks, by deployment and key.

        Returns None if `lookup` needs no reference, `NotFound` if none was ever prepared.
        """
        del call
        return None

    @abstractmethod
    def execute(self, call: EffectCall[F]) -> EffectOutcome:
        """Perform the effect once, with the idempotency key; never retry inside."""

    def lookup(self, call: EffectCall[F]) -> EffectOutcome:
        """Look up the outcome of the effect at the provider. Read-only."""
        del call
        return LookupUnsupported()

    def confirm(self, call: EffectCall[F], claimed: Succeeded) -> EffectOutcome:
        """Ask the provider whether what the business rows call done is done. Read-only.

        A worker calls it after `AlreadyResolved`. Return `claimed` itself if nobody can be asked:
        the result of a job that moves money then says that no provider confirmed it.
        """
        del call
        return claimed

    @classmethod
    def references(cls, outcome: EffectOutcome) -> frozenset[str]:
        """Return the ids that an operator may enter for this effect, such as a charge id."""
        ref = outcome.ref if isinstance(outcome, Succeeded | Anomalous) else None
        return frozenset(() if ref is None else (ref,))

    def close(self, call: EffectCall[F]) -> EffectOutcome:
        """Close the prepared reference, so that it can never take effect (`leaves_open` only)."""
        del call
        return Anomalous("this job type prepares nothing that could be closed")

    def lookup_closed(self, job: JobRow) -> EffectOutcome:
        """Look up whether the prepared reference is closed, without the business rows. Read-only.

        Returns `Declined` if it can never take effect, `StillOpen` if a worker can close it, and
        `NotFound` if the reference is unknown or not this job's.
        """
        del job
        return LookupUnsupported()

    def on_success(self, facts: F, job: JobRow) -> tuple[BusinessWrite, ...]:
        """Return the business writes of a finished job."""
        del facts, job
        return ()

    def on_failure(self, facts: F, job: JobRow) -> tuple[BusinessWrite, ...]:
        """Return the business writes of a declined job."""
        del facts, job
        return ()

    def on_cancel(self, facts: F, job: JobRow) -> tuple[BusinessWrite, ...]:
        """Return the business writes of a job that an operator cancelled."""
        del facts, job
        return ()

    def on_pending(self, facts: F) -> tuple[BusinessWrite, ...]:
        """Return the business writes that show progress. They are left out if the rows changed."""
        del facts
        return ()

    def business_writes(
        self, event: Event, facts: F, job: JobRow, outcome: EffectOutcome
    ) -> tuple[BusinessWrite, ...]:
        """Return the business writes for the transaction that records this event."""
        outcome_writes = outcome.writes if isinstance(outcome, Succeeded) else ()
        match event:
            case Event.CONFIRM | Event.RESOLVE_FINISHED:
                return (*self.on_success(facts, job), *outcome_writes)
            case Event.DECLINE | Event.RESOLVE_FAILED:
                return self.on_failure(facts, job)
            case Event.CANCEL | Event.CLOSE:
                return self.on_cancel(facts, job)
            case Event.MARK_UNKNOWN | Event.RECHECK if isinstance(outcome, Pending):
                return self.on_pending(facts)
            case _:
                return ()

    @classmethod
    def detects_missing_jobs(cls) -> bool:
        """Return whether this contract can find messages that were never sent."""
        return cls.missing_jobs is not Contract.missing_jobs

    def missing_jobs(self, *, now: datetime) -> Iterable[M]:
        """Find messages that the business rows request and that may never have been sent."""
        del now
        return ()

    def follow_ups(self, job: JobRow) -> tuple[Message, ...]:
        """Return the messages to send after this job has ended, from its row alone."""
        del job
        return ()

    @classmethod
    def describe_fields(cls) -> ContractDescription:
        """Describe the contract as fields, for the admin page and `--json`."""
        limits = cls.policy.limits
        timeouts = f"{limits.max_consecutive_timeouts} timeouts in a row"
        hours = format_duration(limits.max_age)
        stops = (
            f"after {timeouts}, {limits.max_attempts} attempts, or {hours} without an outcome",
            "when a message has the same key and other business values",
            "when the effect is done but the business rows reject the write",
        )
        rows, grace = cls.description.waits_for, format_duration(limits.grace_period)
        waits = () if rows is None else (f"when it waited {grace} for {rows}",)
        return ContractDescription(
            job_type=cls.job_type,
            queue=cls.resources.queue,
            effect=cls.description.effect,
            business_rows=cls.description.business_rows,
            success=cls.description.success,
            failure=cls.description.failure,
            retry=cls._describe_retries(),
            review_when=(*stops, *waits, *cls.description.review_when),
        )

    @classmethod
    def _describe_retries(cls) -> str:
        by_safety: dict[RetrySafety, list[str]] = {}
        for policy in cls.all_policies():
            by_safety.setdefault(policy.safety, []).append(policy.profile.name)
        if len(by_safety) == 1:
            return RETRY_DESCRIPTIONS[cls.policy.safety]
        return " ".join(
            f"{' and '.join(names)}: {RETRY_DESCRIPTIONS[safety]}"
            for safety, names in by_safety.items()
        )

    @classmethod
    def describe(cls) -> str:
        """Describe the contract as text."""
        return str(cls.describe_fields())


AnyContract: TypeAlias = Contract[Any, Any]


def providers_of(contracts: Iterable[type[AnyContract]]) -> tuple[AnyProvider, ...]:
    """Return the plug-ins that contracts call, each once, sorted by name."""
    plugins = {plugin.name: plugin for one in contracts for plugin in one.resources.providers}
    return tuple(plugins[name] for name in sorted(plugins))
