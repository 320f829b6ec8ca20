"""What a run of the benchmarks found: plain figures, kept in docs/benchmarks.json."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from pydantic import TypeAdapter

from oncely_cdk.paths import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "benchmarks.md"
PLOT: Final = REPOSITORY / "docs" / "benchmarks.svg"
RAW: Final = REPOSITORY / "docs" / "benchmarks.json"


@dataclass(frozen=True, kw_only=True)
class CallCounts:
    new: int
    duplicate: int
    bad: int


@dataclass(frozen=True, kw_only=True)
class CpuTime:
    """CPU time of one job, and its ratio to the bare AWS calls."""

    ratio: float
    milliseconds: float
    bare_milliseconds: float
    aws_calls: int


@dataclass(frozen=True, kw_only=True)
class ImportTime:
    ratio: float
    milliseconds: float


@dataclass(frozen=True, kw_only=True)
class BatchTime:
    """Wall time of a batch. The bars show when each provider call began and ended, in seconds."""

    seconds: float
    over_latency: float
    bars: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class SweepCost:
    rows: int
    found: int
    read: int


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """A worker that died at this call, and how many sweeps it took to resolve its job."""

    died: str
    sweeps: int
    ended: str


@dataclass(frozen=True, kw_only=True)
class PackageSize:
    function: str
    code: int
    layers: int


@dataclass(frozen=True, kw_only=True)
class CostLine:
    what: str
    oncely: float
    powertools: float


@dataclass(frozen=True, kw_only=True)
class CostFigures:
    write_units: dict[str, float]  # by job
    row_bytes: dict[str, int]  # the largest size of each job's row
    smallest: float  # dollars for a million, as the next three
    powertools: float
    order: float  # a payment and its receipt
    unknown: float  # the additional cost of a payment that a sweep resolves
    idle_month: float
    s3_puts: float  # of a job, at 100 jobs a second


@dataclass(frozen=True, kw_only=True)
class GateOverhead:
    """What the gate of a provider costs, and how well it holds its limit."""

    limit: float  # requests a second
    jobs_per_second: float  # that were offered
    jobs: int
    writes: int  # refused ones included
    worst_second: int

    @property
    def writes_per_job(self) -> float:
        return self.writes / self.jobs

    def __str__(self) -> str:
        return (
            f"limit {self.limit:g}/s, {self.jobs_per_second:g} jobs/s offered: "
            f"{self.writes_per_job:.3f} write units a job, worst second {self.worst_second}"
        )


@dataclass(frozen=True, kw_only=True)
class RecoveryFigures:
    """The recovery of jobs that became unknown in an outage."""

    is_gated: bool
    rate: float  # requests a second that the provider accepts on each endpoint
    jobs: int
    finished: int
    seconds: float
    lookups: int  # requests on the busiest endpoint, refused ones included
    refused: int  # answered 429

    @property
    def refused_share(self) -> float:
        return self.refused / max(self.lookups, 1)

    @property
    def limit_seconds(self) -> float:
        """As fast as the provider allows, and a fifth more."""
        return 1.2 * self.lookups / self.rate

    def __str__(self) -> str:
        return (
            f"{'with' if self.is_gated else 'without'} the gate: {self.finished} of {self.jobs} "
            f"jobs ended in {self.seconds:.1f} s (limit {self.limit_seconds:.1f} s), "
            f"{self.lookups} requests on the busiest endpoint, {self.refused} answered 429 "
            f"({self.refused_share:.1%})"
        )


@dataclass(frozen=True, kw_only=True)
class Figures:
    machine: str
    calls: CallCounts
    powertools_calls: CallCounts
    client: ImportTime
    worker_import: ImportTime
    worker_ready: ImportTime
    stripe_worker_ready: ImportTime
    powertools_import: ImportTime
    cpu: CpuTime
    powertools_cpu: CpuTime
    cpu_over_powertools: float  # one by one, the same job in the same rounds
    latency: float
    batch: BatchTime
    powertools_batch: BatchTime
    bare_batch: BatchTime
    finds: tuple[SweepCost, ...]
    recoveries: tuple[Recovery, ...]
    shipped: tuple[PackageSize, ...]
    prices: tuple[CostLine, ...]
    costs: CostFigures
    gates: tuple[GateOverhead, ...]
    outages: tuple[RecoveryFigures, ...]  # with the gate, and without

    @classmethod
    def read(cls, **newer: Any) -> Self:  # noqa: ANN401  # figures by name
        """The figures of the last run, with newer ones of a part."""
        stored = json.loads(RAW.read_text(encoding="utf-8"))
        return TypeAdapter(cls).validate_python({**stored, **newer})

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"
