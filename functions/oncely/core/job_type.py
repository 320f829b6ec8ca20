"""What a run needs of a job type: its rules, and the steps of its effect."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from oncely.core.effect_outcomes import (
    Anomalous,
    BusinessWrite,
    EffectOutcome,
    Json,
    LookupOutcome,
    LookupUnsupported,
    Pending,
    Prepared,
    Reserved,
    Succeeded,
)
from oncely.core.ended_jobs import MONEY_RETENTION, PROOF_RETENTION
from oncely.core.job_row import JobRow
from oncely.core.keys import (
    MAX_IDEMPOTENCY_KEY_LENGTH,
    IdempotencyKey,
    JobKey,
    claim_tag,
    idempotency_key,
)
from oncely.core.lifecycle import Event
from oncely.core.money import Money
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.core.schedule import DEFAULT_SCHEDULE_LIMIT

M = TypeVar("M")
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


class JobType(ABC, Generic[M, F]):
    """The rules of a job type, and the steps of its effect. `Contract` is what an author writes."""

    job_type: ClassVar[str]
    policy: ClassVar[RetryPolicy]
    # By the name of the plug-in, if business rows choose it. An instance has its job's policy.
    policies: ClassVar[Mapping[str, RetryPolicy]] = {}
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

    provider: str | None  # of the job that this instance runs or looks up

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
    @abstractmethod
    def indexed_subject(cls, message: M) -> str | None:
        """Return the business id to index the row by. Returns None if its keys can be derived."""

    @abstractmethod
    def with_provider(self, provider: str | None) -> Self:
        """Return this job type for a job of one provider: with its policy, client and secrets."""

    @abstractmethod
    def require_secrets(self) -> None:
        """Read its secrets. Raises NotConfiguredError if one cannot be used."""

    @abstractmethod
    def send_message(self, job: JobRow) -> bool:
        """Send the job's message again. Returns False if the queue did not accept it."""

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
    def effective_schedule_limit(cls) -> timedelta:
        """Return how far ahead a `run_at` is honored: 0 if none is."""
        if cls.schedule_limit is not None:
            return cls.schedule_limit
        return timedelta(0) if cls.moves_money() else DEFAULT_SCHEDULE_LIMIT

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

    def find_prepared(self, call: EffectCall[F]) -> Prepared | LookupOutcome | None:
        """Find the prepared reference that a restored row lacks, by deployment and key.

        Returns None if `lookup` needs no reference, `NotFound` if none was ever prepared.
        """
        del call
        return None

    @abstractmethod
    def execute(self, call: EffectCall[F]) -> EffectOutcome:
        """Perform the effect once, with the idempotency key; never retry inside."""

    def lookup(self, call: EffectCall[F]) -> LookupOutcome:
        """Look up the outcome of the effect at the provider. Read-only."""
        del call
        return LookupUnsupported()

    def confirm(self, call: EffectCall[F], claimed: Succeeded) -> LookupOutcome:
        """Ask the provider whether what the business rows call done is done. Read-only.

        A worker calls it after `AlreadyResolved`. Return `claimed` itself if nobody can be asked:
        the result of a job that moves money then says that no provider confirmed it.
        """
        del call
        return claimed

    def close(self, call: EffectCall[F]) -> EffectOutcome:
        """Close the prepared reference, so that it can never take effect (`leaves_open` only)."""
        del call
        return Anomalous("this job type prepares nothing that could be closed")

    def lookup_closed(self, job: JobRow) -> LookupOutcome:
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
        self, event: Event, facts: F, job: JobRow, outcome: EffectOutcome | LookupOutcome
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

    def follow_ups(self, job: JobRow) -> tuple[Any, ...]:
        """Return the messages to send after this job has ended, from its row alone."""
        del job
        return ()


AnyJobType: TypeAlias = JobType[Any, Any]
# A message of any job type. It has `run_at` and `to_dict`.
AnyMessage: TypeAlias = Any
