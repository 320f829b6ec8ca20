"""What a provider can tell us, as values: `decide` turns each into a move of the life cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias, assert_never

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class Precondition:
    """What the row must hold for the write to be taken."""

    name: str
    one_of: tuple[Json, ...]
    or_absent: bool = False
    or_at_most: str | None = None  # or any text that sorts at or before this one, such as a time

    def is_met_by(self, row: Mapping[str, object]) -> bool:
        """Whether a row holds it."""
        if self.name not in row:
            return self.or_absent
        value = row[self.name]
        return value in self.one_of or (
            self.or_at_most is not None and str(value) <= self.or_at_most
        )


@dataclass(frozen=True, kw_only=True)
class BusinessWrite:
    """A change of one business row, in the same transaction as the job's end."""

    table: str
    key: Mapping[str, str]
    set: Mapping[str, Json] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    may_create: bool = False  # a row that is not there is made
    must_be_new: bool = False  # a row that is there refuses

    def applies_to(self, row: Mapping[str, object] | None) -> bool:
        """Whether the row, as it was read, would take this write; None: there is no row."""
        if row is None:
            creates = self.may_create or self.must_be_new
            return creates and all(expect.or_absent for expect in self.preconditions)
        return not self.must_be_new and all(expect.is_met_by(row) for expect in self.preconditions)

    def __str__(self) -> str:
        return f"{self.table} {'/'.join(self.key.values())}"


@dataclass(frozen=True)
class Succeeded:
    """A definite yes: the effect is in place, once."""

    reason: str
    ref: str | None = None
    result: Mapping[str, Json] = field(default_factory=dict)
    writes: tuple[BusinessWrite, ...] = ()  # what was brought in, beside the contract's own writes


@dataclass(frozen=True)
class Declined:
    """A definite no: the effect is not in place and this request will never bring it about."""

    reason: str
    code: str
    result: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class StillOpen:
    """Declined, but what was prepared could still take effect: it is closed before the job fails.

    A confirmation that arrives late, or a customer who authenticates later, could still succeed.
    """

    reason: str
    code: str
    result: Mapping[str, Json] = field(default_factory=dict)
    close_failure: "NotSent | None" = None  # why this run could not close it


@dataclass(frozen=True)
class NotSent:
    """Certainly no effect: the request never left, or was turned away at the door."""

    reason: str
    retry_after: timedelta | None = None
    credentials_rejected: bool = (
        False  # our credentials or settings are wrong: waiting alone will not mend it
    )


@dataclass(frozen=True)
class Ambiguous:
    """The provider may have acted: timeout, dropped connection, 5xx, 409, garbled answer."""

    reason: str


@dataclass(frozen=True)
class InProgress:
    """A long job saved its progress and ran short of time: it goes on in another run."""

    reason: str


@dataclass(frozen=True)
class Pending:
    """The provider has it and has not decided."""

    reason: str


@dataclass(frozen=True)
class Anomalous:
    """Found, but not as asked for: other amount, two of them, refunded. A person must look."""

    reason: str
    ref: str | None = None
    result: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class LeaseExpired:
    """Not a provider's answer: the lease ran out, so its owner is certainly dead."""

    reason: str = "the lease ran out before the worker recorded an outcome"


@dataclass(frozen=True)
class NotFound:
    """Asked: there is none. `proved` when none can appear later either."""

    reason: str
    conclusive: bool = False


@dataclass(frozen=True)
class LookupFailed:
    """Asked, and the provider could not say: down, rate limited, our key refused."""

    reason: str
    retry_after: timedelta | None = None


@dataclass(frozen=True)
class LookupUnsupported:
    """This provider has no way to be asked."""

    reason: str = "this provider cannot be asked what became of a request"


EffectOutcome: TypeAlias = (
    Succeeded
    | Declined
    | StillOpen
    | NotSent
    | Ambiguous
    | InProgress
    | Pending
    | Anomalous
    | LeaseExpired
    | NotFound
    | LookupFailed
    | LookupUnsupported
)


# No definite answer: what follows depends on whether the effect was tried or looked up.
IndefiniteOutcome: TypeAlias = (
    NotSent
    | Ambiguous
    | InProgress
    | Pending
    | LeaseExpired
    | NotFound
    | LookupFailed
    | LookupUnsupported
)


def short_label(outcome: EffectOutcome) -> str:
    """What an answer comes to, before its reason is read."""
    match outcome:
        case Succeeded():
            return "succeeded"
        case Declined():
            return "refused"
        case StillOpen():
            return "refused, and still open"
        case NotFound() | NotSent():
            return "nothing was done"
        case Pending() | InProgress():
            return "still under way"
        case Anomalous():
            return "not as asked for"
        case Ambiguous() | LeaseExpired() | LookupFailed() | LookupUnsupported():
            return "no answer"
        case unreachable:
            assert_never(unreachable)


@dataclass(frozen=True)
class Prepared:
    """A reference at the provider that has moved nothing yet; it is saved before it is acted on."""

    ref: str
    replayed: bool = False  # an earlier call with the same key made it: it is verified first
