"""What is explored: a contract, its first message, its surroundings, and what must hold."""

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
    """What the history knows of the time that a restore of the tables loses."""

    LAGGING = auto()  # nothing: the stream had not delivered it
    ARCHIVED = auto()  # every change


@dataclass(frozen=True, kw_only=True)
class ProviderSpec:
    """A provider in memory, and which of its calls act and which only ask.

    Beside each call stands what a lost reply looks like: an answer, or an exception to raise.
    """

    target: Any
    effect_calls: Mapping[str, object] = field(default_factory=dict)
    lookup_calls: Mapping[str, object] = field(default_factory=dict)


def effect_calls(*names: str) -> dict[str, object]:
    """Calls that act; a lost reply of theirs leaves everything open."""
    return dict.fromkeys(names, Ambiguous("timeout"))


def lookup_calls(*names: str) -> dict[str, object]:
    """Calls that only ask; a lost reply of theirs says nothing."""
    return dict.fromkeys(names, LookupFailed("timeout"))


class FinalState(Protocol):
    """The world after all is quiet, for a scenario to judge."""

    @property
    def store(self) -> MemoryJobStore: ...

    @property
    def providers(self) -> Mapping[str, Any]:
        """The providers themselves, by the name that a contract's tools know them by."""

    def job(self, key: JobKey) -> Job | None:
        """The row."""


def _no_rows(_: MemoryBusinessRows) -> None:
    return


def _no_checks(_: FinalState) -> Iterable[str]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One world to explore. Everything in it is made anew for each schedule."""

    name: str
    contracts: tuple[type[AnyContract], ...]  # the first is explored; the others may follow it
    message: Mapping[str, object]
    providers: Callable[[Clock], Mapping[str, ProviderSpec | None]]
    # How often the effect happened, by the provider's own count; for a natural effect, what
    # matters is whether it is in place: 1 or 0.
    count_effects: Callable[[FinalState], int]
    seed_rows: Callable[[MemoryBusinessRows], None] = _no_rows
    jobs: tuple[Job, ...] = ()  # the job rows that are there from the start
    check: Callable[[FinalState], Iterable[str]] = _no_checks  # what else must hold; says what not
    # What somebody else may change at any time, and the messages that they send about it.
    edit: Callable[[MemoryBusinessRows], Iterable[Mapping[str, object]]] | None = None
    duplicate_messages: int = 2  # how many workers get the same message at once
    sweeps_at: tuple[timedelta, ...] = ()  # sweeps that no row asks for, from the start
    sweep_leases: bool = False  # whether sweeps keep each other off; they need not, to be safe
    worker_seconds: float = 60  # what a worker has
    restore: RestoreMode | None = None  # whether the tables may be restored to an earlier moment
    deployment: str = "dev"  # the identity that rows and provider keys carry
    # What has happened in every schedule of this scenario, written as a script; not counted.
    fixed_prefix: str = ""

    @property
    def contract(self) -> type[AnyContract]:
        """The one that is explored."""
        return self.contracts[0]
