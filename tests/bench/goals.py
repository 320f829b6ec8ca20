"""The goals beside their figures: which are met, and by how much."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.bench.figures import CallCounts, CostFigures, Figures

CPU_OVER_POWERTOOLS = 1.15
IMPORT = 1.25
READY = 1.5
BATCH = 1.3
WRITE_UNITS = {"natural": 4, "smallest keyed": 4, "payment.charge": 12, "receipt.send": 6}
ROW_BYTES = 1_000
DOLLARS = (4, 18, 7)
S3_PUTS = 0.02
IDLE_MONTH = 7


class GoalRow(NamedTuple):
    what: str
    goal: str
    oncely: str
    powertools: str
    is_met: bool


def goal_rows(f: Figures) -> Iterator[GoalRow]:
    yield GoalRow(
        "DynamoDB calls: new · duplicate · bad message",
        "2 · 1 · 0",
        _calls(f.calls),
        _calls(f.powertools_calls),
        _calls(f.calls) == "2 · 1 · 0",
    )
    yield GoalRow(
        "CPU of a job, one by one, over the same job on Powertools",
        f"≤ {CPU_OVER_POWERTOOLS:.2f}",
        f"{f.cpu_over_powertools:.2f}",
        "1",
        f.cpu_over_powertools <= CPU_OVER_POWERTOOLS,
    )
    yield GoalRow(
        "CPU of importing the worker over one bare `boto3.client`",
        f"≤ {IMPORT:.2f}",
        f"{f.worker_import.ratio:.2f}",
        f"{f.powertools_import.ratio:.2f}",
        f.worker_import.ratio <= IMPORT,
    )
    yield GoalRow(
        "the same until it is ready for the first message",
        f"≤ {READY:.2f}",
        f"{f.worker_ready.ratio:.2f}",
        f"{f.powertools_import.ratio:.2f}",
        f.worker_ready.ratio <= READY,
    )
    yield GoalRow(
        f"wall time of a batch of ten over the provider's {1000 * f.latency:.0f} ms",
        f"≤ {BATCH:.1f}",
        f"{f.batch.over_latency:.2f}",
        f"{f.powertools_batch.over_latency:.2f}",
        f.batch.over_latency <= BATCH,
    )
    reads = {found.read for found in f.finds}
    yield GoalRow(
        "items a sweep reads to find ten due jobs: 1 k · 10 k · 100 k rows",
        "flat",
        " · ".join(str(found.read) for found in f.finds),
        "nothing looks",
        len(reads) == 1,
    )

    yield from _cost_rows(f.costs)


def _cost_rows(costs: CostFigures) -> Iterator[GoalRow]:
    units = [costs.write_units[name] for name in WRITE_UNITS]
    yield GoalRow(
        f"write units: {' · '.join(WRITE_UNITS)}",
        "≤ " + " · ".join(map(str, WRITE_UNITS.values())),
        " · ".join(f"{one:g}" for one in units),
        "2 for the smallest",
        all(one <= most for one, most in zip(units, WRITE_UNITS.values(), strict=True)),
    )
    largest = max(costs.row_bytes.values())
    yield GoalRow(
        "bytes of the largest row", f"< {ROW_BYTES:,}", f"{largest:,}", "", largest < ROW_BYTES
    )
    dollars = (costs.smallest, costs.order, costs.unknown)
    yield GoalRow(
        "$ for a million: smallest · order with receipt · resolved unknown, on top",
        "≤ " + " · ".join(f"{one:g}" for one in DOLLARS),
        " · ".join(f"{one:.2f}" for one in dollars),
        f"{costs.powertools:.2f} for the smallest",
        all(one <= most for one, most in zip(dollars, DOLLARS, strict=True)),
    )
    yield GoalRow(
        "S3 requests of the smallest job: on the claim path · PutObject at 100/s",
        f"0 · ≤ {S3_PUTS:g}",
        f"{costs.s3_on_the_claim_path} · {costs.s3_puts:.4g}",
        "none",
        costs.s3_on_the_claim_path == 0 and costs.s3_puts <= S3_PUTS,
    )
    yield GoalRow(
        "$ for an idle month",
        f"≤ {IDLE_MONTH:g}",
        f"{costs.idle_month:.2f}",
        "",
        costs.idle_month <= IDLE_MONTH,
    )


def _calls(calls: CallCounts) -> str:
    return f"{calls.new} · {calls.duplicate} · {calls.bad}"
