"""A scenario to explore: a contract, its message, its environment, and its invariants."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Protocol

from oncely.contract import AnyContract
from oncely.domain.effect_outcomes import Ambiguous, LookupFailed
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.ports import Clock
from oncely.testing.memory import MemoryBusinessRows, MemoryJobStore


class RestoreMode(Enum):
    """Whether the history has the changes that a restore of the tables loses."""

    LAGGING = auto()  # none: the stream had not delivered them
    ARCHIVED = auto()  # all of them


@dataclass(frozen=True, kw_only=True)
class ProviderSpec:
    """A provider in memory, with its effect calls and its lookup calls.

    Each call maps to what a lost response looks like: an outcome, or an exception to raise.
    """

    target: Any
    effect_calls: Mapping[str, object] = field(default_factory=dict)
    lookup_calls: Mapping[str, object] = field(default_factory=dict)


def effect_calls(*names: str) -> dict[str, object]:
    """Map effect calls to the outcome of a lost response: ambiguous."""
    return dict.fromkeys(names, Ambiguous("timeout"))


def lookup_calls(*names: str) -> dict[str, object]:
    """Map lookup calls to the outcome of a lost response: a failed lookup."""
    return dict.fromkeys(names, LookupFailed("timeout"))


class FinalState(Protocol):
    """The state at the end of a schedule, for a scenario to check."""

    @property
    def store(self) -> MemoryJobStore: ...

    @property
    def providers(self) -> Mapping[str, Any]:
        """The providers without interception, by the name of their plug-in."""

    def job(self, key: JobKey) -> Job | None:
        """Return the row of a job. Returns None if there is none."""


def _no_rows(_: MemoryBusinessRows) -> None:
    return


def _no_checks(_: FinalState) -> Iterable[str]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A scenario. Each schedule builds its own state from it."""

    name: str
    contracts: tuple[type[AnyContract], ...]  # the first is explored; the others are follow-ups
    message: Mapping[str, object]
    providers: Callable[[Clock], Mapping[str, ProviderSpec | None]]
    # How often the effect happened at the provider; for a natural effect, 1 if it is in place.
    count_effects: Callable[[FinalState], int]
    seed_rows: Callable[[MemoryBusinessRows], None] = _no_rows
    jobs: tuple[Job, ...] = ()  # initial job rows
    check: Callable[[FinalState], Iterable[str]] = _no_checks  # yields further violations
    # A concurrent edit of business rows, and the messages that it sends.
    edit: Callable[[MemoryBusinessRows], Iterable[Mapping[str, object]]] | None = None
    duplicate_messages: int = 2  # how many workers receive the same message
    sweeps_at: tuple[timedelta, ...] = ()  # additional sweeps, by time since the start
    sweep_leases: bool = False  # overlapping sweeps are safe, so the default allows them
    worker_seconds: float = 60  # timeout of a worker
    restore: RestoreMode | None = None  # if set, the tables may be restored to an earlier time
    deployment: str = "dev"  # the identity in rows and idempotency keys
    # A script that every schedule starts with; it does not count toward the limits.
    fixed_prefix: str = ""

    @property
    def contract(self) -> type[AnyContract]:
        """The contract that is explored."""
        return self.contracts[0]
