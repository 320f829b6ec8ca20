"""The contract: the one class that says everything about a job type."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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

# Far above any job that names things instead of carrying them, far below a row's 400 kB.
MAX_MESSAGE_BYTES: Final = 64 * 1024


# Halves of characters, and the two that SQS refuses: spelled out, they can be sent and read.
_UNSENDABLE_CHARACTERS: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")


class Message(BaseModel):
    """What a producer sends; strict, so that a wrong type is an answer and not a guess."""

    # Built when first used: a worker imports every contract and runs those of one queue.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    job: str
    v: int

    def to_dict(self) -> dict[str, Json]:
        """What the row keeps: only what the producer said."""
        return self.model_dump(mode="json", exclude_none=True, exclude_unset=True)


def encode_message(message: Mapping[str, object]) -> str:
    """A message as a queue takes it; never longer than what its producer sent."""
    text = json.dumps(dict(message), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSENDABLE_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


M = TypeVar("M", bound=Message)
F = TypeVar("F")


@dataclass(frozen=True, kw_only=True)
class Proceed(Generic[F]):
    """The check found nothing against it: these are the facts to act on."""

    facts: F
    values: Mapping[str, object]  # the resolved business values; the fingerprint is over these
    customer_id: str | None = None  # if given, support can search by it: an index entry a job
    money: Money | None = None  # what it moves, for the people who look the job up
    requires_failed: JobKey | None = None


@dataclass(frozen=True, kw_only=True)
class AlreadyResolved(Generic[F]):
    """The check knows the end already: done before, or nothing that could be done."""

    outcome: Succeeded | Anomalous
    facts: F | None = None
    values: Mapping[str, object] | None = None
    customer_id: str | None = None
    money: Money | None = None
    writes: tuple[BusinessWrite, ...] = ()


@dataclass(frozen=True)
class Mismatch:
    """The message says something else than our own rows: a conflict, before any call."""

    reason: str


PrecheckResult: TypeAlias = Proceed[F] | AlreadyResolved[F] | Mismatch


@dataclass(frozen=True, kw_only=True)
class EffectCall(Generic[F]):
    """One try of an effect: the job as it stands, and the facts to act on."""

    job: Job
    facts: F
    max_key_length: int = MAX_IDEMPOTENCY_KEY_LENGTH
    verified: bool = False  # this run made or verified the saved reference
    has_time_for: Callable[[timedelta], bool] = lambda _: True
    save_progress: Callable[[Mapping[str, Json]], None] = lambda _: (
        None
    )  # a long job's progress, fenced

    def idempotency_key(self, step: str) -> IdempotencyKey:
        """The idempotency key of a step: the same on every try."""
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
    """What a job type needs around it; the stack is derived from this."""

    queue: str
    # Business tables; one that another stack owns is named by its short name alone.
    tables: tuple[TableSchema | str, ...] = ()
    providers: tuple[AnyProvider, ...] = ()
    secrets: tuple[str, ...] = ()  # beyond the API keys of its providers
    sends_to: tuple[str, ...] = ()  # other queues that its effect or its follow-ups feed

    @property
    def table_names(self) -> tuple[str, ...]:
        """The short names of its business tables."""
        return tuple(one if isinstance(one, str) else one.name for one in self.tables)

    @cached_property
    def secret_names(self) -> tuple[str, ...]:
        """The short names of all secrets: its own, and the API keys of its providers."""
        return (*self.secrets, *(one.secret_name for one in self.providers if one.secret_name))


@dataclass(frozen=True, kw_only=True)
class Description:
    """The contract in plain language, for people who do not read code."""

    effect: str  # what can happen outside
    business_rows: str  # which rows change
    success: str  # what success is
    failure: str  # what a plain "no" is
    review_when: tuple[str, ...] = field(default=())  # when a person is told, beyond the stop rules
    done_verb: str = "done"  # "was I charged?": "not charged yet"


class Contract(ABC, Generic[M, F]):
    """One job type. Class attributes say what it is; an instance can run it."""

    job_type: ClassVar[str]
    # A class variable cannot name M; `parse` of the registry returns it typed all the same.
    message: ClassVar[type[Message]]
    # The shortest message that a producer would send; `model_construct` spares a cold start the
    # check, which a test makes.
    example: ClassVar[Message]
    policy: ClassVar[RetryPolicy]
    resources: ClassVar[Resources]
    description: ClassVar[Description]
    takes_money: ClassVar[bool] = False  # "was I charged twice?" is answered from those that do
    # How long the ended row stays as the proof that the job ran. None: the stage's row retention
    # for a natural effect, seven years for one that takes money, 400 days for any other.
    proof_retention: ClassVar[timedelta | None] = None
    publishes_events: ClassVar[bool] = False  # whether each end is put on the event bus

    def __init__(self, dependencies: Dependencies) -> None:
        self.dependencies = dependencies

    @classmethod
    @abstractmethod
    def key(cls, message: M) -> JobKey:
        """The business identity of the job; never a value made in the worker."""

    @classmethod
    def subject(cls, message: M) -> str | None:
        """The business id that people ask by, such as an order's; None: only the key finds it.

        If `keys_for_subject` does not give its keys, each row is in an index by this id.
        """
        del message
        return None

    @classmethod
    def effective_retention(cls, row_retention: timedelta | None) -> timedelta:
        """How long the row stays after the job has ended and owes nothing more."""
        if cls.proof_retention:
            return cls.proof_retention
        if cls.policy.safety is RetrySafety.NATURAL and row_retention is not None:
            return row_retention
        return MONEY_RETENTION if cls.takes_money else PROOF_RETENTION

    @classmethod
    def keys_for_subject(cls, subject: str) -> Iterator[JobKey]:
        """The keys that such a business id may have led to, in the order that they came into use.

        Where all of them follow from the id, no index is written: a search reads these.
        """
        del subject
        return iter(())

    @classmethod
    def indexed_subject(cls, message: M) -> str | None:
        """The business id that the row carries for the index; None: its keys can be derived."""
        # A bound method is made anew by each look; what it calls is not.
        derives_keys = cls.keys_for_subject.__func__ is not Contract.keys_for_subject.__func__  # type: ignore[attr-defined]  # of a class method
        return None if derives_keys else indexable_id(cls.subject(message))

    @classmethod
    def resubmission(cls, message: M) -> Message | None:
        """The message of a new business attempt after a plain no; None: there is none."""
        del message
        return None

    @classmethod
    def success_summary(cls, job: Job) -> str:
        """What a support person says of a job that is done."""
        del job
        return f"Done: {cls.description.success}"

    @classmethod
    def uniqueness_key(cls, message: M) -> str:
        """What `unique_for` keeps unique: the key, or less of it for a job that may run again."""
        return cls.key(message)

    @abstractmethod
    def precheck(self, message: M) -> "PrecheckResult[F]":
        """Look at our own rows before anything is claimed or called."""

    def key_scope(self) -> str:
        """Within what the provider's keys are unique now; a resend needs the same."""
        return ""

    def prepare(self, call: EffectCall[F]) -> Prepared | EffectOutcome | None:
        """Make the reference to save before acting; None: this effect has no such step."""
        del call
        return None

    def find_prepared(self, call: EffectCall[F]) -> Prepared | EffectOutcome | None:
        """Find a reference that was prepared and that a restored row lacks, by deployment and key.

        Returns None if `ask` needs no reference; `NotFound` says that there certainly is none.
        """
        del call
        return None

    @abstractmethod
    def execute(self, call: EffectCall[F]) -> EffectOutcome:
        """Perform the effect, once, with the stable key; never retry inside."""

    def lookup(self, call: EffectCall[F]) -> EffectOutcome:
        """Find out what became of an effect; changes nothing outside."""
        del call
        return LookupUnsupported()

    def close(self, call: EffectCall[F]) -> EffectOutcome:
        """Close what was prepared, so that it can never take effect; for `leaves_open` only."""
        del call
        return Anomalous("this job type prepares nothing that could be closed")

    def lookup_closed(self, job: Job) -> EffectOutcome:
        """Find out whether what was prepared is closed, without our own rows; changes nothing.

        `Declined` says that it can never take effect, `StillOpen` that a worker can close it.
        """
        del job
        return LookupUnsupported()

    def on_success(self, facts: F, job: Job) -> tuple[BusinessWrite, ...]:
        """The local writes that belong to success."""
        del facts, job
        return ()

    def on_failure(self, facts: F, job: Job) -> tuple[BusinessWrite, ...]:
        """The local writes that belong to a definite no."""
        del facts, job
        return ()

    def business_writes(
        self, event: Event, facts: F, job: Job, outcome: EffectOutcome
    ) -> tuple[BusinessWrite, ...]:
        """The local writes that go into the same transaction as this move."""
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
        """Whether this contract says which messages may never have been sent."""
        return cls.missing_jobs is not Contract.missing_jobs

    def missing_jobs(self, *, now: datetime) -> Iterable[M]:
        """The messages that our own rows ask for and that may never have been sent."""
        del now
        return ()

    def follow_ups(self, job: Job) -> tuple[Message, ...]:
        """The jobs to send after this one has ended, from its row alone."""
        del job
        return ()

    @classmethod
    def describe_fields(cls) -> ContractDescription:
        """The contract in plain language, as fields for the admin page and `--json`."""
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
        """The contract in plain language, as text."""
        return str(cls.describe_fields())


AnyContract: TypeAlias = Contract[Any, Any]
