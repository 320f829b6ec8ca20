"""What a run of the benchmarks found: plain figures, kept in docs/benchmarks.json."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from infra import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "benchmarks.md"
PLOT: Final = REPOSITORY / "docs" / "benchmarks.svg"
RAW: Final = REPOSITORY / "docs" / "benchmarks.json"


@dataclass(frozen=True, kw_only=True)
class Calls:
    """DynamoDB requests for one message of each kind."""

    new: int
    duplicate: int
    bad: int


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """CPU time of one job; the ratio is over the same AWS calls made bare, in the same way."""

    ratio: float
    milliseconds: float
    bare_milliseconds: float
    aws_calls: int


@dataclass(frozen=True, kw_only=True)
class Import:
    """User CPU of a start in a fresh interpreter, over making one boto3 client."""

    ratio: float
    milliseconds: float


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Wall time of a batch; the bars say when each provider call began and ended, in seconds."""

    seconds: float
    over_latency: float
    bars: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one sweep found and read in a table of this many rows."""

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
class Shipped:
    """What a function consists of, zipped, in kilobytes."""

    function: str
    code: int
    layers: int


@dataclass(frozen=True, kw_only=True)
class Price:
    """One line of the bill of a million jobs, in US dollars."""

    what: str
    oncely: float
    powertools: float


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What jobs consume and cost, as docs/costs.md has it."""

    write_units: dict[str, float]  # by job
    row_bytes: dict[str, int]  # the largest that the row of each job ever was
    smallest: float  # dollars for a million, as the next three
    powertools: float
    order: float  # a payment and its receipt
    unknown: float  # a payment whose outcome a sweep finds out, on top
    idle_month: float
    s3_on_the_claim_path: int
    s3_puts: float  # of a job, at 100 jobs a second


@dataclass(frozen=True, kw_only=True)
class Figures:
    """All of them."""

    machine: str
    calls: Calls
    powertools_calls: Calls
    client: Import
    worker_import: Import
    worker_ready: Import
    stripe_worker_ready: Import
    powertools_import: Import
    cpu: Cpu
    powertools_cpu: Cpu
    cpu_over_powertools: float  # one by one, the same job in the same rounds
    latency: float
    batch: Batch
    powertools_batch: Batch
    bare_batch: Batch
    finds: tuple[Found, ...]
    recoveries: tuple[Recovery, ...]
    shipped: tuple[Shipped, ...]
    prices: tuple[Price, ...]
    costs: Costs

    def as_json(self) -> str:
        """The raw figures, for other pages."""
        return json.dumps(asdict(self), indent=1) + "\n"


def write(text: str, file: Path) -> None:
    """Replace a page that is written by the benchmarks."""
    file.write_text(text, encoding="utf-8")
