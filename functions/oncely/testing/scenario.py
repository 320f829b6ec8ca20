"""A scenario to explore: a contract, its message, its environment, and its invariants."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, Protocol

from oncely.contracts.job import AnyJob, JobSettings
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.repairs import Repair
from oncely.history.erasure_log import Person
from oncely.plugins.provider import ProviderSettings
from oncely.testing.in_process import InProcessSandbox
from oncely.testing.rows import BusinessRows
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions


class RestoreMode(Enum):
    """Which tables are restored, and whether the history has the changes that this loses."""

    LAGGING = auto()  # all tables; none of the changes: the stream had not delivered them
    JOBS_LAGGING = auto()  # the job table alone; none of the changes
    ARCHIVED = auto()  # the job table alone; all of them


class GateClosing(Enum):
    """Why the gate closes."""

    PAUSE = auto()  # an operator pauses the job type, and resumes it three days later
    OUTAGE = auto()  # the circuit of the provider opens, until a probe closes it


@dataclass(frozen=True, kw_only=True)
class PlannedRepair:
    """A repair that an operator tries. The reference is the row's, unless another is given."""

    after: timedelta  # since the start
    repair: Repair
    reference: str | None = None
    run_at: datetime | None = None
    actor: str = "ada"


class FinalState(Protocol):
    """The state at the end of a schedule, for a scenario to check."""

    @property
    def jobs(self) -> Mapping[JobKey, JobRow]:
        """The job rows."""

    @property
    def rows(self) -> BusinessRows:
        """The business rows."""

    @property
    def providers(self) -> Mapping[str, Any]:
        """The models of the providers, by the name of their plug-in."""

    @property
    def sandbox(self) -> InProcessSandbox:
        """The models with the requests that they received."""

    def job(self, key: JobKey) -> JobRow | None:
        """Return the row of a job. Returns None if there is none."""


@dataclass(frozen=True, kw_only=True)
class EventSource:
    """Events of the providers: a message of the intake queue for each that was published so far."""

    bodies: Callable[[Mapping[str, Any]], Sequence[str]]  # from the providers by name
    delay: timedelta = timedelta(seconds=2)
    deliveries: int = 1
    lost: bool = False  # delivered only if a script says so


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A scenario. Each schedule builds its own state from it."""

    name: str
    contracts: tuple[type[AnyJob], ...]  # the first is explored; the others are follow-ups
    message: Mapping[str, object]
    # By the name of their plug-in: a model under the shipped client. None if the provider is not
    # configured.
    providers: Callable[[SandboxOptions], Mapping[str, ProviderSandbox | None]]
    # Faults of the models in every schedule, as `FaultSet.add` takes them.
    provider_faults: tuple[Mapping[str, Any], ...] = ()
    # How often the effect happened at the provider; for a natural effect, 1 if it is in place.
    count_effects: Callable[[FinalState], int]
    seed_rows: Callable[[BusinessRows], None] = lambda _: None
    job_settings: tuple[JobSettings, ...] = ()  # of the contracts that declare some
    jobs: tuple[JobRow, ...] = ()  # initial job rows
    check: Callable[[FinalState], Iterable[str]] = lambda _: ()  # yields further violations
    # A concurrent edit of business rows, and the messages that it sends.
    edit: Callable[[BusinessRows], Iterable[Mapping[str, object]]] | None = None
    wrong_messages: tuple[Mapping[str, object], ...] = ()  # rejected on purpose
    duplicate_messages: int = 2  # how many workers receive the same message
    sweeps_at: tuple[timedelta, ...] = ()  # additional sweeps, by time since the start
    repairs: tuple[PlannedRepair, ...] = ()  # each may begin while another one is under way
    second_operator_above: str = ""  # as in the settings
    sweep_leases: bool = False  # overlapping sweeps are safe, so the default allows them
    restore: RestoreMode | None = None  # if set, the tables may be restored to an earlier time
    store_outage: timedelta | None = None  # if set, our tables may fail once for this long
    secrets_missing_for: timedelta = timedelta(
        0
    )  # if set, every secret is empty for this long from the start
    closes_gate: GateClosing | None = None  # if set, the gate may close once, at any time
    erases: Person | None = None  # if set, this personal data is erased at any time
    # Messages of the intake queue, each of which arrives at any time, or never.
    events: tuple[str, ...] = ()
    provider_settings: Mapping[str, ProviderSettings] = field(default_factory=dict)
    published_events: EventSource | None = None  # those that follow from effects
    max_alerts_per_hour: int = 10  # with 0, only summaries
    deployment: str = "dev"  # the identity in rows and idempotency keys
    # Whether lookups have found effects in this deployment before: see `must_prove_lookup`.
    lookups_proved: bool = True
    # If set, botocore is between the adapters and AWS: it serializes, retries and parses each call.
    through_botocore: bool = False
    # A script that every schedule starts with; it does not count toward the limits.
    fixed_prefix: str = ""

    @property
    def contract(self) -> type[AnyJob]:
        """The contract that is explored."""
        return self.contracts[0]

    @property
    def must_prove_lookups(self) -> bool:
        """Whether a lookup has to find an effect before its absence is believed."""
        policies = (one for contract in self.contracts for one in contract.policies.values())
        return any(one.must_prove_lookup for one in policies)
