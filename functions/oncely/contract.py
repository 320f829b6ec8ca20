"""The contract: the one class that says everything about a job type."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

from oncely.domain.answers import Answer, CannotAsk, Done, Odd, Prepared
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_PROVIDER_KEY, JobKey, ProviderKey, findable, provider_key
from oncely.domain.lifecycle import Event
from oncely.domain.money import Money
from oncely.domain.profiles import Safety, Terms
from oncely.domain.proof import default_retention
from oncely.domain.writes import Json, LocalWrite
from oncely.ports import Tools

# Two DynamoDB calls of 4 s at worst (adapters/aws.py): the write that ends a job, and the read
# that tells whether it arrived when its reply did not.
COMMIT_BUDGET: Final = timedelta(seconds=8)


# Far above any job that names things instead of carrying them, far below a row's 400 kB.
MAX_MESSAGE_BYTES: Final = 64 * 1024


# Halves of characters, and the two that SQS refuses: spelled out, they can be sent and read.
_NOT_FOR_QUEUES: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")


class Message(BaseModel):
    """What a producer sends; strict, so that a wrong type is an answer and not a guess."""

    # Built when first used: a worker imports every contract and runs those of one queue.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    job: str
    v: int

    def as_json(self) -> dict[str, Json]:
        """What the row keeps: only what the producer said."""
        return self.model_dump(mode="json", exclude_none=True, exclude_unset=True)


def body_of(message: Mapping[str, object]) -> str:
    """A message as a queue takes it; never longer than what its producer sent."""
    text = json.dumps(dict(message), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _NOT_FOR_QUEUES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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
class Settled(Generic[F]):
    """The check knows the end already: done before, or nothing that could be done."""

    answer: Done | Odd
    facts: F | None = None
    values: Mapping[str, object] | None = None
    customer_id: str | None = None
    money: Money | None = None
    writes: tuple[LocalWrite, ...] = ()


@dataclass(frozen=True)
class Mismatch:
    """The message says something else than our own rows: a conflict, before any call."""

    reason: str


Standing: TypeAlias = Proceed[F] | Settled[F] | Mismatch


@dataclass(kw_only=True)
class Call(Generic[F]):
    """One try of an effect: the job as it stands, and the facts to act on."""

    job: Job
    facts: F
    key_length: int = MAX_PROVIDER_KEY
    verified: bool = False  # this run made or verified the saved reference
    has_time: Callable[[timedelta], bool] = lambda _: True
    save: Callable[[Mapping[str, Json]], None] = lambda _: None  # a long job's progress, fenced

    def key(self, step: str) -> ProviderKey:
        """The idempotency key of a step: the same on every try."""
        job = self.job
        return provider_key(
            job.job_key,
            step,
            job.key_number,
            deployment=job.deployment,
            longest=self.key_length,
        )


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a job type needs around it; the stack is derived from this."""

    queue: str
    tables: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()  # AWS actions beyond those, such as ses:SendEmail
    sends_to: tuple[str, ...] = ()  # other queues that its effect or its follow-ups feed


@dataclass(frozen=True, kw_only=True)
class Words:
    """The contract in plain language, for people who do not read code."""

    outside: str  # what can happen outside
    rows: str  # which rows change
    success: str  # what success is
    failure: str  # what a plain "no" is
    alerts: tuple[str, ...] = field(default=())  # when a person is told, beyond the stop rules
    deed: str = "done"  # "was I charged?": "not charged yet"


class Contract(ABC, Generic[M, F]):
    """One job type. Class attributes say what it is; an instance can run it."""

    job_type: ClassVar[str]
    # A class variable cannot name M; `parse` of the registry returns it typed all the same.
    message: ClassVar[type[Message]]
    # The shortest message that a producer would send; `model_construct` spares a cold start the
    # check, which a test makes.
    example: ClassVar[Message]
    terms: ClassVar[Terms]
    needs: ClassVar[Needs]
    words: ClassVar[Words]
    takes_money: ClassVar[bool] = False  # "was I charged twice?" is answered from those that do
    # How long the ended row stays as the proof that the job ran. None: the stage's row retention
    # for a natural effect, seven years for one that takes money, 400 days for any other.
    proof_retention: ClassVar[timedelta | None] = None
    publishes_events: ClassVar[bool] = False  # whether each end is put on the event bus

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    @classmethod
    @abstractmethod
    def key(cls, message: M) -> JobKey:
        """The business identity of the job; never a value made in the worker."""

    @classmethod
    def subject(cls, message: M) -> str | None:
        """The business id that people ask by, such as an order's; None: only the key finds it.

        If `keys_of` does not give its keys, each row is in an index by this id.
        """
        del message
        return None

    @classmethod
    def kept_for(cls, row_retention: timedelta | None) -> timedelta:
        """How long the row stays after the job has ended and owes nothing more."""
        return cls.proof_retention or default_retention(
            cls.terms.safety, takes_money=cls.takes_money, row_retention=row_retention
        )

    @classmethod
    def keys_of(cls, subject: str) -> Iterator[JobKey]:
        """The keys that such a business id may have led to, in the order that they came into use.

        Where all of them follow from the id, no index is written: a search reads these.
        """
        del subject
        return iter(())

    @classmethod
    def indexed_subject(cls, message: M) -> str | None:
        """The business id that the row carries for the index; None: its keys can be derived."""
        # A bound method is made anew by each look; what it calls is not.
        derives_keys = cls.keys_of.__func__ is not Contract.keys_of.__func__  # type: ignore[attr-defined]  # of a class method
        return None if derives_keys else findable(cls.subject(message))

    @classmethod
    def another_attempt(cls, message: M) -> Message | None:
        """The message of a new business attempt after a plain no; None: there is none."""
        del message
        return None

    @classmethod
    def done_words(cls, job: Job) -> str:
        """What a support person says of a job that is done."""
        del job
        return f"Done: {cls.words.success}"

    @classmethod
    def window_name(cls, message: M) -> str:
        """What `unique_for` keeps unique: the key, or less of it for a job that may run again."""
        return cls.key(message)

    @abstractmethod
    def check(self, message: M) -> "Standing[F]":
        """Look at our own rows before anything is claimed or called."""

    def scope(self) -> str:
        """Within what the provider's keys are unique now; a resend needs the same."""
        return ""

    def prepare(self, call: Call[F]) -> Prepared | Answer | None:
        """Make the reference to save before acting; None: this effect has no such step."""
        del call
        return None

    def find_prepared(self, call: Call[F]) -> Prepared | Answer | None:
        """Find a reference that was prepared and that a restored row lacks, by deployment and key.

        Returns None if `ask` needs no reference; `Absent` says that there certainly is none.
        """
        del call
        return None

    @abstractmethod
    def act(self, call: Call[F]) -> Answer:
        """Perform the effect, once, with the stable key; never retry inside."""

    def ask(self, call: Call[F]) -> Answer:
        """Find out what became of an effect; changes nothing outside."""
        del call
        return CannotAsk()

    def close(self, call: Call[F]) -> Answer:
        """Close what was prepared, so that it can never take effect; for `leaves_open` only."""
        del call
        return Odd("this job type prepares nothing that could be closed")

    def ask_closed(self, job: Job) -> Answer:
        """Find out whether what was prepared is closed, without our own rows; changes nothing.

        `Refused` says that it can never take effect, `StillOpen` that a worker can close it.
        """
        del job
        return CannotAsk()

    def on_success(self, facts: F, job: Job) -> tuple[LocalWrite, ...]:
        """The local writes that belong to success."""
        del facts, job
        return ()

    def on_failure(self, facts: F, job: Job) -> tuple[LocalWrite, ...]:
        """The local writes that belong to a definite no."""
        del facts, job
        return ()

    def local_writes(
        self, event: Event, facts: F, job: Job, answer: Answer
    ) -> tuple[LocalWrite, ...]:
        """The local writes that go into the same transaction as this move."""
        brought = answer.writes if isinstance(answer, Done) else ()
        match event:
            case Event.CONFIRM | Event.RULE_FINISHED:
                return (*self.on_success(facts, job), *brought)
            case Event.REFUSE | Event.RULE_FAILED:
                return self.on_failure(facts, job)
            case _:
                return ()

    @classmethod
    def looks_for_unserved(cls) -> bool:
        """Whether this contract says which messages may never have been sent."""
        return cls.unserved is not Contract.unserved

    def unserved(self, *, now: datetime) -> Iterable[M]:
        """The messages that our own rows ask for and that may never have been sent."""
        del now
        return ()

    def follow_ups(self, job: Job) -> tuple[Message, ...]:
        """The jobs to send after this one has ended, from its row alone."""
        del job
        return ()

    @classmethod
    def time_needed(cls) -> timedelta:
        """What one run may take at worst; less time left, and it is not started."""
        return cls.terms.profile.longest_run + COMMIT_BUDGET

    @classmethod
    def describe(cls) -> str:
        """The contract in plain language."""
        stop = cls.terms.stop
        alerts = (
            (
                f"after {stop.timeouts_in_a_row} timeouts in a row, {stop.attempts} attempts, "
                f"or {stop.age.total_seconds() / 3600:g} hours without an outcome"
            ),
            "when the same key comes with other business values",
            "when the outside action is done and our own rows refuse to record it",
            *cls.words.alerts,
        )
        lines = (
            f"{cls.job_type} (queue {cls.needs.queue})",
            f"  What can happen outside: {cls.words.outside}",
            f"  Which rows change: {cls.words.rows}",
            f"  Success is: {cls.words.success}",
            f"  A plain no is: {cls.words.failure}",
            f"  A second run: {_SECOND_RUN[cls.terms.safety]}",
            "  A person is told:",
            *(f"    - {alert}" for alert in alerts),
        )
        return "\n".join(lines)


AnyContract: TypeAlias = Contract[Any, Any]

_SECOND_RUN: Final[Mapping[Safety, str]] = {
    Safety.NATURAL: (
        "once it has ended, it returns the first run's answer; before, it is simply run again, "
        "which changes nothing outside."
    ),
    Safety.KEYED: (
        "returns the first run's answer. While the outcome is unknown the provider is asked; it is "
        "sent again only when it certainly did not happen, or under the same key while the "
        "provider still remembers it."
    ),
    Safety.LOOKUP: (
        "returns the first run's answer. While the outcome is unknown the provider is asked; it is "
        "sent again only when it certainly did not happen."
    ),
    Safety.AT_MOST_ONCE: (
        "returns the first run's answer. While the outcome is unknown it is never sent again by "
        "itself: a person decides."
    ),
}
