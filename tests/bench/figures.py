"""What a run of the benchmarks found: plain figures, kept in docs/benchmarks.json."""

import json
from dataclasses import asdict, dataclass
from typing import Final

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
    """CPU time of one job; the ratio is over the same AWS calls made bare, in the same way."""

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
    """Wall time of a batch; the bars say when each provider call began and ended, in seconds."""

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
    """A worker died at this call; how many sweeps until the job's state is known again."""

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
    row_bytes: dict[str, int]  # the largest that the row of each job ever was
    smallest: float  # dollars for a million, as the next three
    powertools: float
    order: float  # a payment and its receipt
    unknown: float  # a payment whose outcome a sweep finds out, on top
    idle_month: float
    s3_puts: float  # of a job, at 100 jobs a second


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

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"
