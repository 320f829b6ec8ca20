"""The goals beside their figures: which are met, and by how much."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench.figures import Calls, Figures

CPU = 1.10
IMPORT = 1.4
BATCH = 1.3


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement as people read it."""

    what: str
    goal: str
    oncely: str
    powertools: str
    met: bool


def rows(f: Figures) -> Iterator[Row]:
    """Every measurement that has a goal."""
    yield Row(
        what="DynamoDB calls: new · duplicate · bad message",
        goal="2 · 1 · 0",
        oncely=_calls(f.calls),
        powertools=_calls(f.powertools_calls),
        met=_calls(f.calls) == "2 · 1 · 0",
    )
    yield Row(
        what="CPU of a job over its bare AWS calls, one by one",
        goal=f"≤ {CPU:.2f}",
        oncely=f"{f.cpu.ratio:.2f}",
        powertools=f"{f.powertools_cpu.ratio:.2f}",
        met=f.cpu.ratio <= CPU,
    )
    yield Row(
        what="the same, ten jobs at once as it ships",
        goal=f"≤ {CPU:.2f}",
        oncely=f"{f.cpu_at_once.ratio:.2f}",
        powertools="one by one only",
        met=f.cpu_at_once.ratio <= CPU,
    )
    yield Row(
        what="CPU of importing the worker over one bare `boto3.client`",
        goal=f"≤ {IMPORT:.1f}",
        oncely=f"{f.worker_import.ratio:.2f}",
        powertools=f"{f.powertools_import.ratio:.2f}",
        met=f.worker_import.ratio <= IMPORT,
    )
    yield Row(
        what=f"wall time of a batch of ten over the provider's {1000 * f.latency:.0f} ms",
        goal=f"≤ {BATCH:.1f}",
        oncely=f"{f.batch.over_latency:.2f}",
        powertools=f"{f.powertools_batch.over_latency:.2f}",
        met=f.batch.over_latency <= BATCH,
    )
    reads = {found.read for found in f.finds}
    yield Row(
        what="items a sweep reads to find ten due jobs: 1 k · 10 k · 100 k rows",
        goal="flat",
        oncely=" · ".join(str(found.read) for found in f.finds),
        powertools="nothing looks",
        met=len(reads) == 1,
    )


def _calls(calls: Calls) -> str:
    return f"{calls.new} · {calls.duplicate} · {calls.bad}"
