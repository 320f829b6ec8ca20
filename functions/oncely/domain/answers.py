"""What a provider can tell us, as values: `decide` turns each into a move of the life cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from oncely.domain.writes import Json, LocalWrite


@dataclass(frozen=True)
class Done:
    """A definite yes: the effect is in place, once."""

    reason: str
    ref: str | None = None
    result: Mapping[str, Json] = field(default_factory=dict)
    writes: tuple[LocalWrite, ...] = ()  # what was brought in, beside the contract's own writes


@dataclass(frozen=True)
class Refused:
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
    unsent: "NotSent | None" = None  # why this run could not close it


@dataclass(frozen=True)
class NotSent:
    """Certainly no effect: the request never left, or was turned away at the door."""

    reason: str
    retry_after: timedelta | None = None
    alarm: bool = False  # our credentials or settings are wrong: waiting alone will not mend it


@dataclass(frozen=True)
class Unclear:
    """The provider may have acted: timeout, dropped connection, 5xx, 409, garbled answer."""

    reason: str


@dataclass(frozen=True)
class Unfinished:
    """A long job saved its progress and ran short of time: it goes on in another run."""

    reason: str


@dataclass(frozen=True)
class Processing:
    """The provider has it and has not decided."""

    reason: str


@dataclass(frozen=True)
class Odd:
    """Found, but not as asked for: other amount, two of them, refunded. A person must look."""

    reason: str
    ref: str | None = None
    result: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnerGone:
    """Not a provider's answer: the lease ran out, so its owner is certainly dead."""

    reason: str = "the lease ran out before the worker recorded an outcome"


@dataclass(frozen=True)
class Absent:
    """Asked: there is none. `proved` when none can appear later either."""

    reason: str
    proved: bool = False


@dataclass(frozen=True)
class Unreachable:
    """Asked, and the provider could not say: down, rate limited, our key refused."""

    reason: str
    retry_after: timedelta | None = None


@dataclass(frozen=True)
class CannotAsk:
    """This provider has no way to be asked."""

    reason: str = "this provider cannot be asked what became of a request"


Answer: TypeAlias = (
    Done
    | Refused
    | StillOpen
    | NotSent
    | Unclear
    | Unfinished
    | Processing
    | Odd
    | OwnerGone
    | Absent
    | Unreachable
    | CannotAsk
)


def in_a_word(answer: Answer) -> str:
    """What an answer comes to, before its reason is read."""
    match answer:
        case Done():
            return "succeeded"
        case Refused():
            return "refused"
        case StillOpen():
            return "refused, and still open"
        case Absent() | NotSent():
            return "nothing was done"
        case Processing() | Unfinished():
            return "still under way"
        case Odd():
            return "not as asked for"
        case Unclear() | OwnerGone() | Unreachable() | CannotAsk():
            return "no answer"


@dataclass(frozen=True)
class Prepared:
    """A reference at the provider that has moved nothing yet; it is saved before it is acted on."""

    ref: str
    replayed: bool = False  # an earlier call with the same key made it: it is verified first
