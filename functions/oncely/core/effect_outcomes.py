"""What we know about an effect, as values. `decide` turns each into a decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class Precondition:
    """The attribute that the row must have for the write to succeed."""

    name: str
    one_of: tuple[Json, ...]
    or_absent: bool = False
    or_at_most: str | None = None  # or any text up to this one in sort order, such as a time

    def is_met_by(self, row: Mapping[str, object]) -> bool:
        """Whether the row meets it."""
        if self.name not in row:
            return self.or_absent
        value = row[self.name]
        return value in self.one_of or (
            self.or_at_most is not None and isinstance(value, str) and value <= self.or_at_most
        )


@dataclass(frozen=True, kw_only=True)
class BusinessWrite:
    """A change of one business row, in the same transaction as the job's end."""

    table: str
    key: Mapping[str, str]
    set: Mapping[str, Json] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    may_create: bool = False  # create the row if it is missing
    must_be_new: bool = False  # fail if the row exists

    def applies_to(self, row: Mapping[str, object] | None) -> bool:
        """Whether this write would succeed on the row that was read. None if there is no row."""
        if row is None:
            creates = self.may_create or self.must_be_new
            return creates and all(expect.or_absent for expect in self.preconditions)
        return not self.must_be_new and all(expect.is_met_by(row) for expect in self.preconditions)

    def __str__(self) -> str:
        return f"{self.table} {'/'.join(self.key.values())}"


@dataclass(frozen=True)
class _Explained:
    reason: str


@dataclass(frozen=True)
class Succeeded:
    """The effect happened, once."""

    reason: str
    ref: str | None = None
    result: Mapping[str, Json] = field(default_factory=dict)
    writes: tuple[BusinessWrite, ...] = ()  # fetched data, in addition to the contract's own writes


@dataclass(frozen=True)
class Declined:
    """The effect did not happen, and this request will never make it happen."""

    reason: str
    code: str
    result: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class StillOpen:
    """Declined, but what was prepared could still take effect, so it must be closed first.

    A confirmation that arrives late, or a customer who authenticates later, could still succeed.
    """

    reason: str
    code: str
    result: Mapping[str, Json] = field(default_factory=dict)
    close_failure: "NotSent | None" = None  # why this run could not close it


@dataclass(frozen=True)
class NotSent:
    """Certainly no effect: the request was never sent, or was rejected before processing."""

    reason: str
    retry_after: timedelta | None = None
    credentials_rejected: bool = False  # our credentials or settings are wrong: waiting won't help
    held_until: datetime | None = None  # the gate is closed: the row waits until then


@dataclass(frozen=True)
class Ambiguous:
    """The effect may have happened: timeout, dropped connection, 5xx, 409, malformed response."""

    reason: str
    # The provider says that it replays an answer which it stored under this key, so whatever still
    # arrives under the key has no effect. An error alone does not prove that it was stored.
    replayed: bool = False


class InProgress(_Explained):
    """A long job saved its progress and ran out of time: it continues in another run."""


@dataclass(frozen=True)
class Pending:
    """The provider is still processing it, which can take days."""

    reason: str
    may_take: timedelta | None = None  # if this effect's method has its own time limit


@dataclass(frozen=True)
class Anomalous:
    """Found, but not as requested: another amount, two of them, refunded. Needs review."""

    reason: str
    ref: str | None = None
    result: Mapping[str, Json] = field(default_factory=dict)
    effect_done: bool = False  # done once, as requested; it was disputed or refunded in part later
    undone: bool = False  # done once, as requested; all of it was refunded later


@dataclass(frozen=True)
class NotFound:
    """The lookup found none. `conclusive` means that none can appear later."""

    reason: str
    conclusive: bool = False
    # Set by Oncely: no lookup of this job type has found an effect yet, so it proves nothing.
    unproved: bool = False


@dataclass(frozen=True)
class LookupFailed:
    """The lookup failed: the provider is down, rate limited, or rejects our API key."""

    reason: str
    retry_after: timedelta | None = None
    unknown_reference: bool = False  # the provider has no such reference, or not in this account


@dataclass(frozen=True)
class LookupUnsupported:
    """This provider has no lookup."""

    reason: str = "this provider has no lookup"
    event_wait: timedelta = timedelta(0)  # how long after a send its event may still prove it


# What the provider has, whether the effect was just performed or is looked up.
ProviderState: TypeAlias = Succeeded | Declined | StillOpen | Pending | Anomalous
# What a call that performs the effect can answer.
EffectOutcome: TypeAlias = ProviderState | NotSent | Ambiguous | InProgress
# What a lookup can answer. It sends nothing, so what it does not find is not `NotSent`.
LookupOutcome: TypeAlias = ProviderState | NotFound | LookupFailed | LookupUnsupported


def after_send(state: LookupOutcome) -> EffectOutcome:
    """What the state that is read after a request means. What is not there may still arrive."""
    if isinstance(state, NotFound | LookupFailed | LookupUnsupported):
        return Ambiguous(state.reason)
    return state


def checked_lookup(answer: object) -> LookupOutcome:
    """The answer of a contract's lookup. Raises TypeError for one that no lookup can give."""
    if isinstance(answer, LookupOutcome):
        return answer
    raise TypeError(f"a lookup cannot answer {type(answer).__name__}")


@dataclass(frozen=True)
class Prepared:
    """A provider reference with no effect yet. It is saved before it is used."""

    ref: str
    replayed: bool = False  # an earlier call with the same key created it, so verify it first


@dataclass(frozen=True)
class Reserved:
    """Business writes before the effect, in one fenced write, such as an amount to reserve."""

    reason: str
    writes: tuple[BusinessWrite, ...]
