"""What a run needs of a job type: its rules, and the steps of its effect."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, cast

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    BusinessWrite,
    EffectOutcome,
    Json,
    LookupOutcome,
    LookupUnsupported,
    NotSent,
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

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    F = TypeVar("F", default=None)  # the facts of a precheck; the smallest jobs have none
else:
    from typing import TypeVar

    F = TypeVar("F")


class _NoFacts(Enum):
    """In place of facts that are None: the precheck passed, and the message says everything."""

    NONE_NEEDED = auto()


@dataclass(frozen=True, kw_only=True)
class Proceed(Generic[F]):
    """A precheck that passed, with the facts that the effect needs."""

    facts: F = None  # type: ignore[assignment]  # only if F is None
    values: Mapping[str, object]  # the resolved business values; the fingerprint covers these
    # The name of the plug-in, if business rows choose one of `policies`. Part of `values` as well.
    provider: str | None = None
    customer_id: str | None = None  # makes the job searchable by it, for one index entry per job
    money: Money | None = None  # the amount that the effect moves, for the admin page
    requires_failed: JobKey | None = None

    def __post_init__(self) -> None:
        """Tell a precheck that passed from one without facts, of which the core knows nothing."""
        if self.facts is None:
            object.__setattr__(self, "facts", _NoFacts.NONE_NEEDED)


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
    """A precheck whose business rows may still arrive. Retried for the job's `grace_period`."""

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
class Call(Generic[F]):
    """One step of a job: its current row, the facts of its precheck, and requests to an HTTP API.

    A client of its own is `self.tools.provider(…)`.
    """

    row: JobRow
    facts: F
    # The client of an HTTP API. It performs and looks up, and says what each answer means.
    http: Callable[[], Any] = field(repr=False)
    is_keyed: bool = True  # the provider remembers idempotency keys
    max_key_length: int = MAX_IDEMPOTENCY_KEY_LENGTH
    verified: bool = False  # this run created or verified the saved reference
    tag_key: str = field(default="", repr=False)  # of the deployment
    has_time_for: Callable[[timedelta], bool] = lambda _: True
    save_progress: Callable[[Mapping[str, Json]], None] = lambda _: None  # fenced
    _sent: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def post(self, path: str, *, json: object = None, **more: Any) -> EffectOutcome:  # noqa: ANN401  # of the client
        """Perform the effect at the HTTP API of the provider, whose answer is the outcome."""
        return self.send("POST", path, json=json, **more)

    def send(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        step: str = "do",
        **more: Any,  # noqa: ANN401  # of the client
    ) -> EffectOutcome:
        """Perform it with another method. A step has the same idempotency key on every attempt."""
        key = self.idempotency_key(step) if self.is_keyed else None
        outcome: EffectOutcome = self.http().perform(method, path, json=json, key=key, **more)
        if isinstance(outcome, NotSent) and self._sent:
            return Ambiguous(f"{outcome.reason}; an earlier request of this run was sent")
        if not isinstance(outcome, NotSent):
            self._sent.append(path)
        return outcome

    def get(self, path: str, **more: Any) -> LookupOutcome:  # noqa: ANN401  # of the client
        """Look up the effect at the HTTP API of the provider. Read-only."""
        outcome: LookupOutcome = self.http().look_up(path, **more)
        return outcome

    def idempotency_key(self, step: str) -> IdempotencyKey:
        """Return the idempotency key of a step, the same for every attempt."""
        row = self.row
        return idempotency_key(
            row.job_key,
            step,
            row.key_number,
            deployment=row.deployment,
            max_length=self.max_key_length,
        )

    @property
    def claim_tag(self) -> str:
        """The tag by which the provider's events prove what this claim sent."""
        row = self.row
        return claim_tag(row.job_key, deployment=row.deployment, fence=row.fence, key=self.tag_key)


class _PolicyOfJob:
    """The policy of a job's provider; of a class, that of its default provider."""

    def __get__(self, job: "AnyJobType | None", job_class: "type[AnyJobType]") -> RetryPolicy:
        policies = job_class.policies
        name = None if job is None else job.provider_name
        found = policies.get(name) if name else None
        return found or next(iter(policies.values()))


class JobType(ABC, Generic[F]):
    """What the core reads of a job, and the steps that it calls. `Job` is what an author writes."""

    job_type: ClassVar[str]
    policies: ClassVar[Mapping[str, RetryPolicy]]  # by plug-in; that of the default comes first
    policy = _PolicyOfJob()
    # The declarations of an author that the core reads; `Job` says what they mean.
    takes_money: ClassVar[bool]
    returns_money: ClassVar[bool]
    proof_retention: ClassVar[timedelta | None]
    schedule_limit: ClassVar[timedelta | None]
    limits_resubmissions: ClassVar[bool]
    publishes_events: ClassVar[bool]

    @cached_property
    @abstractmethod
    def provider_name(self) -> str | None:
        """The plug-in of this job, if business rows choose one of several."""

    @property
    @abstractmethod
    def requested_run_at(self) -> datetime | None:
        """The earliest time to run, if its message sets one."""

    @classmethod
    def policy_of(cls, row: JobRow) -> RetryPolicy:
        """Return the policy of a job, by the provider in its row."""
        return cls.policies.get(row.provider or "", cls.policy)

    @classmethod
    @cache
    def max_duration(cls) -> timedelta:
        """Return how long a run may take at the slowest of its providers."""
        return max(policy.max_duration for policy in cls.policies.values())

    @abstractmethod
    def job_key(self) -> JobKey:
        """Return the business identity of the job."""

    @abstractmethod
    def to_dict(self) -> dict[str, Json]:
        """Return the message as the row stores it, without a time."""

    @abstractmethod
    def to_sent_dict(self) -> dict[str, Json]:
        """Return the message as a queue holds it: with its run time."""

    @abstractmethod
    def indexed_subject(self) -> str | None:
        """Return the business id to index the row by. Returns None if its keys can be derived."""

    @abstractmethod
    def with_provider(self, name: str | None) -> Self:
        """Return this job at one of its providers: with its policy, client and secrets."""

    @abstractmethod
    def require_secrets(self) -> None:
        """Read its secrets. Raises NotConfiguredError if one cannot be used."""

    @abstractmethod
    def send_message(self, row: JobRow) -> bool:
        """Send the message of a row again. Returns False if the queue did not accept it."""

    @abstractmethod
    def http_client(self) -> Any:  # noqa: ANN401  # of its provider
        """Return the client of its HTTP API. Raises TypeError if its provider is none."""

    def new_call(self, row: JobRow, facts: F, **more: Any) -> Call[F]:  # noqa: ANN401  # its fields
        """Return a call of one step."""
        policy = self.policy
        return Call(
            row=row,
            facts=cast("F", None) if facts is _NoFacts.NONE_NEEDED else facts,
            http=self.http_client,
            is_keyed=policy.safety is RetrySafety.KEYED,
            max_key_length=policy.profile.max_key_length,
            **more,
        )

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

    def precheck(self) -> "PrecheckResult[F]":
        """Read the business rows before Oncely claims the job or calls the provider."""
        return Proceed(values=self.business_values())

    @abstractmethod
    def business_values(self) -> Mapping[str, Json]:
        """Return the values of the message that the fingerprint covers, without a precheck."""

    def key_scope(self) -> str:
        """Return the scope in which idempotency keys are unique now. A retry needs the same."""
        return ""

    def prepare(self, call: Call[F]) -> Prepared | Reserved | EffectOutcome | None:
        """Create the reference or reservation to save before `execute`, if one is needed."""
        del call
        return None

    def find_prepared(self, call: Call[F]) -> Prepared | LookupOutcome | None:
        """Find the prepared reference that a restored row lacks, by deployment and key.

        Returns None if `lookup` needs no reference, `NotFound` if none was ever prepared.
        """
        del call
        return None

    @abstractmethod
    def execute(self, call: Call[F]) -> EffectOutcome:
        """Perform the effect once, with the idempotency key; never retry inside."""

    def lookup(self, call: Call[F]) -> LookupOutcome:
        """Look up the outcome of the effect at the provider. Read-only."""
        del call
        return LookupUnsupported()

    def confirm(self, call: Call[F], claimed: Succeeded) -> LookupOutcome:
        """Ask the provider whether what the business rows call done is done. Read-only.

        A worker calls it after `AlreadyResolved`. Return `claimed` itself if nobody can be asked:
        the result of a job that moves money then says that no provider confirmed it.
        """
        del call
        return claimed

    def close(self, call: Call[F]) -> EffectOutcome:
        """Close the prepared reference, so that it can never take effect."""
        del call
        return Anomalous("this job type prepares nothing that could be closed")

    def lookup_closed(self, row: JobRow) -> LookupOutcome:
        """Look up whether the prepared reference is closed, without the business rows. Read-only.

        Returns `Declined` if it can never take effect, `StillOpen` if a worker can close it, and
        `NotFound` if the reference is unknown or not this job's.
        """
        del row
        return LookupUnsupported()

    def on_success(self, call: Call[F]) -> tuple[BusinessWrite, ...]:
        """Return the business writes of a finished job."""
        del call
        return ()

    def on_failure(self, call: Call[F]) -> tuple[BusinessWrite, ...]:
        """Return the business writes of a declined job."""
        del call
        return ()

    def on_cancel(self, call: Call[F]) -> tuple[BusinessWrite, ...]:
        """Return the business writes of a job that an operator cancelled."""
        del call
        return ()

    def on_pending(self, call: Call[F]) -> tuple[BusinessWrite, ...]:
        """Return the business writes that show progress. They are left out if the rows changed."""
        del call
        return ()

    def business_writes(
        self, event: Event, facts: F, row: JobRow, outcome: EffectOutcome | LookupOutcome
    ) -> tuple[BusinessWrite, ...]:
        """Return the business writes for the transaction that records this event."""
        call = self.new_call(row, facts)
        outcome_writes = outcome.writes if isinstance(outcome, Succeeded) else ()
        match event:
            case Event.CONFIRM | Event.RESOLVE_FINISHED:
                return (*self.on_success(call), *outcome_writes)
            case Event.DECLINE | Event.RESOLVE_FAILED:
                return self.on_failure(call)
            case Event.CANCEL | Event.CLOSE:
                return self.on_cancel(call)
            case Event.MARK_UNKNOWN | Event.RECHECK if isinstance(outcome, Pending):
                return self.on_pending(call)
            case _:
                return ()

    def follow_ups(self, row: JobRow) -> tuple["AnyJobType", ...]:
        """Return the jobs to send after this one has ended, from its row alone."""
        del row
        return ()


AnyJobType: TypeAlias = JobType[Any]
