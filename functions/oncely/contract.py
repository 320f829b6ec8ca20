"""The contract: the one class that defines a job type."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

from oncely.domain.contract_description import RETRY_DESCRIPTIONS, ContractDescription
from oncely.domain.effect_outcomes import (
    Anomalous,
    BusinessWrite,
    EffectOutcome,
    Json,
    LookupUnsupported,
    Prepared,
    Succeeded,
)
from oncely.domain.jobs import MONEY_RETENTION, PROOF_RETENTION, Job
from oncely.domain.keys import (
    MAX_IDEMPOTENCY_KEY_LENGTH,
    IdempotencyKey,
    JobKey,
    idempotency_key,
    indexable_id,
)
from oncely.domain.lifecycle import Event
from oncely.domain.money import Money
from oncely.domain.profiles import RetryPolicy, RetrySafety
from oncely.ports import Dependencies
from oncely.provider import AnyProvider
from oncely.table_schema import TableSchema

# Ample for a message that refers to data by id, and far below the 400 kB limit of a row.
MAX_MESSAGE_BYTES: Final = 64 * 1024


# Lone surrogates and the two characters that SQS rejects; escaped, they can be sent and read.
_UNSENDABLE_CHARACTERS: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")


class Message(BaseModel):
    """The message of a producer. Strict: a wrong type is rejected, never coerced."""

    # Build lazily: a worker imports every contract but runs only those of one queue.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    job: str
    v: int

    def to_dict(self) -> dict[str, Json]:
        """Return the message as the row stores it: only the fields that the producer set."""
        return self.model_dump(mode="json", exclude_none=True, exclude_unset=True)


def encode_message(message: Mapping[str, object]) -> str:
    """Encode a message for a queue, never longer than its producer sent it."""
    text = json.dumps(dict(message), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSENDABLE_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


M = TypeVar("M", bound=Message)
F = TypeVar("F")


@dataclass(frozen=True, kw_only=True)
class Proceed(Generic[F]):
    """A precheck that passed, with the facts that the effect needs."""

    facts: F
    values: Mapping[str, object]  # the resolved business values; the fingerprint covers these
    customer_id: str | None = None  # makes the job searchable by it, for one index entry a job
    money: Money | None = None  # the amount that the effect moves, for the admin page
    requires_failed: JobKey | None = None


@dataclass(frozen=True, kw_only=True)
class AlreadyResolved(Generic[F]):
    """A precheck that determines the outcome: already done, or impossible to do."""

    outcome: Succeeded | Anomalous
    facts: F | None = None
    values: Mapping[str, object] | None = None
    customer_id: str | None = None
    money: Money | None = None
    writes: tuple[BusinessWrite, ...] = ()


@dataclass(frozen=True)
class Mismatch:
    """A conflict between the message and the business rows, found before any call."""

    reason: str


PrecheckResult: TypeAlias = Proceed[F] | AlreadyResolved[F] | Mismatch


@dataclass(frozen=True, kw_only=True)
class EffectCall(Generic[F]):
    """One attempt at an effect: the current job and the facts of its precheck."""

    job: Job
    facts: F
    max_key_length: int = MAX_IDEMPOTENCY_KEY_LENGTH
    verified: bool = False  # this run created or verified the saved reference
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


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources of a job type. The stack is derived from them."""

    queue: str
    # Business tables; a table that another stack owns is a short name without a schema.
    tables: tuple[TableSchema | str, ...] = ()
    providers: tuple[AnyProvider, ...] = ()
    secrets: tuple[str, ...] = ()  # beyond the API keys of its providers
    sends_to: tuple[str, ...] = ()  # queues that its effect or its follow-ups send to

    @property
    def table_names(self) -> tuple[str, ...]:
        """Short names of its business tables."""
        return tuple(one if isinstance(one, str) else one.name for one in self.tables)

    @cached_property
    def secret_names(self) -> tuple[str, ...]:
        """Short names of its own secrets and the API keys of its providers."""
        return (*self.secrets, *(one.secret_name for one in self.providers if one.secret_name))


@dataclass(frozen=True, kw_only=True)
class Description:
    """The contract in plain language, for the admin page and the docs."""

    effect: str  # what can happen at the provider
    business_rows: str  # which rows change
    success: str  # when the job is finished
    failure: str  # when the provider has declined
    review_when: tuple[str, ...] = ()  # beyond the rules for every job type
    done_verb: str = "done"  # "was I charged?": "not charged yet"


class Contract(ABC, Generic[M, F]):
    """A job type. Class attributes define it; an instance runs it."""

    job_type: ClassVar[str]
    # A class variable cannot be typed with M.
    message: ClassVar[type[Message]]
    # The shortest message that a producer would send. Use `model_construct`: it skips validation
    # on a cold start, and a test validates the example.
    example: ClassVar[Message]
    policy: ClassVar[RetryPolicy]
    resources: ClassVar[Resources]
    description: ClassVar[Description]
    takes_money: ClassVar[bool] = False  # included in the answer to "was I charged twice?"
    # How long the row of an ended job is kept as proof that it ran. The default is the stage's row
    # retention for a natural effect, 7 years for one that takes money, and 400 days otherwise.
    proof_retention: ClassVar[timedelta | None] = None
    publishes_events: ClassVar[bool] = False  # publish each ended job on the event bus

    def __init__(self, dependencies: Dependencies) -> None:
        self.dependencies = dependencies

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
        """Return the message that resubmits a declined job. Returns None if it cannot be."""
        del message
        return None

    @classmethod
    def success_summary(cls, job: Job) -> str:
        """Describe a finished job for a support agent."""
        del job
        return f"Done: {cls.description.success}"

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

    def prepare(self, call: EffectCall[F]) -> Prepared | EffectOutcome | None:
        """Create the reference to save before `execute`. Returns None if it needs none."""
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

    def close(self, call: EffectCall[F]) -> EffectOutcome:
        """Close the prepared reference, so that it can never take effect (`leaves_open` only)."""
        del call
        return Anomalous("this job type prepares nothing that could be closed")

    def lookup_closed(self, job: Job) -> EffectOutcome:
        """Look up whether the prepared reference is closed, without the business rows. Read-only.

        Returns `Declined` if it can never take effect, `StillOpen` if a worker can close it.
        """
        del job
        return LookupUnsupported()

    def on_success(self, facts: F, job: Job) -> tuple[BusinessWrite, ...]:
        """Return the business writes of a finished job."""
        del facts, job
        return ()

    def on_failure(self, facts: F, job: Job) -> tuple[BusinessWrite, ...]:
        """Return the business writes of a declined job."""
        del facts, job
        return ()

    def business_writes(
        self, event: Event, facts: F, job: Job, outcome: EffectOutcome
    ) -> tuple[BusinessWrite, ...]:
        """Return the business writes for the transaction that records this event."""
        outcome_writes = outcome.writes if isinstance(outcome, Succeeded) else ()
        match event:
            case Event.CONFIRM | Event.RESOLVE_FINISHED:
                return (*self.on_success(facts, job), *outcome_writes)
            case Event.DECLINE | Event.RESOLVE_FAILED:
                return self.on_failure(facts, job)
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

    def follow_ups(self, job: Job) -> tuple[Message, ...]:
        """Return the messages to send after this job has ended, from its row alone."""
        del job
        return ()

    @classmethod
    def describe_fields(cls) -> ContractDescription:
        """Describe the contract as fields, for the admin page and `--json`."""
        limits = cls.policy.limits
        timeouts = f"{limits.max_consecutive_timeouts} timeouts in a row"
        hours = f"{limits.max_age.total_seconds() / 3600:g} hours"
        stops = (
            f"after {timeouts}, {limits.max_attempts} attempts, or {hours} without an outcome",
            "when the same key comes with other business values",
            "when the effect is done but the business rows reject the write",
        )
        return ContractDescription(
            job_type=cls.job_type,
            queue=cls.resources.queue,
            effect=cls.description.effect,
            business_rows=cls.description.business_rows,
            success=cls.description.success,
            failure=cls.description.failure,
            retry=RETRY_DESCRIPTIONS[cls.policy.safety],
            review_when=(*stops, *cls.description.review_when),
        )

    @classmethod
    def describe(cls) -> str:
        """Describe the contract as text."""
        return str(cls.describe_fields())


AnyContract: TypeAlias = Contract[Any, Any]
