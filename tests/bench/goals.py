"""The goals beside their figures: which are met, and by how much."""

from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True)
class GoalRow:
    what: str
    goal: str
    oncely: str
    powertools: str
    is_met: bool


def goal_rows(f: Figures) -> Iterator[GoalRow]:
    yield GoalRow(
        what="DynamoDB calls: new · duplicate · bad message",
        goal="2 · 1 · 0",
        oncely=_calls(f.calls),
        powertools=_calls(f.powertools_calls),
        is_met=_calls(f.calls) == "2 · 1 · 0",
    )
    yield GoalRow(
        what="CPU of a job, one by one, over the same job on Powertools",
        goal=f"≤ {CPU_OVER_POWERTOOLS:.2f}",
        oncely=f"{f.cpu_over_powertools:.2f}",
        powertools="1",
        is_met=f.cpu_over_powertools <= CPU_OVER_POWERTOOLS,
    )
    yield GoalRow(
        what="CPU of importing the worker over one bare `boto3.client`",
        goal=f"≤ {IMPORT:.2f}",
        oncely=f"{f.worker_import.ratio:.2f}",
        powertools=f"{f.powertools_import.ratio:.2f}",
        is_met=f.worker_import.ratio <= IMPORT,
    )
    yield GoalRow(
        what="the same until it is ready for the first message",
        goal=f"≤ {READY:.2f}",
        oncely=f"{f.worker_ready.ratio:.2f}",
        powertools=f"{f.powertools_import.ratio:.2f}",
        is_met=f.worker_ready.ratio <= READY,
    )
    yield GoalRow(
        what=f"wall time of a batch of ten over the provider's {1000 * f.latency:.0f} ms",
        goal=f"≤ {BATCH:.1f}",
        oncely=f"{f.batch.over_latency:.2f}",
        powertools=f"{f.powertools_batch.over_latency:.2f}",
        is_met=f.batch.over_latency <= BATCH,
    )
    reads = {found.read for found in f.finds}
    yield GoalRow(
        what="items a sweep reads to find ten due jobs: 1 k · 10 k · 100 k rows",
        goal="flat",
        oncely=" · ".join(str(found.read) for found in f.finds),
        powertools="nothing looks",
        is_met=len(reads) == 1,
    )

    yield from _cost_rows(f.costs)


def _cost_rows(costs: CostFigures) -> Iterator[GoalRow]:
    units = [costs.write_units[name] for name in WRITE_UNITS]
    yield GoalRow(
        what=f"write units: {' · '.join(WRITE_UNITS)}",
        goal="≤ " + " · ".join(map(str, WRITE_UNITS.values())),
        oncely=" · ".join(f"{one:g}" for one in units),
        powertools="2 for the smallest",
        is_met=all(one <= most for one, most in zip(units, WRITE_UNITS.values(), strict=True)),
    )
    largest = max(costs.row_bytes.values())
    yield GoalRow(
        what="bytes of the largest row",
        goal=f"< {ROW_BYTES:,}",
        oncely=f"{largest:,}",
        powertools="",
        is_met=largest < ROW_BYTES,
    )
    dollars = (costs.smallest, costs.order, costs.unknown)
    yield GoalRow(
        what="$ for a million: smallest · order with receipt · resolved unknown, on top",
        goal="≤ " + " · ".join(f"{one:g}" for one in DOLLARS),
        oncely=" · ".join(f"{one:.2f}" for one in dollars),
        powertools=f"{costs.powertools:.2f} for the smallest",
        is_met=all(one <= most for one, most in zip(dollars, DOLLARS, strict=True)),
    )
    yield GoalRow(
        what="S3 requests of the smallest job: on the claim path · PutObject at 100/s",
        goal=f"0 · ≤ {S3_PUTS:g}",
        oncely=f"{costs.s3_on_the_claim_path} · {costs.s3_puts:.4g}",
        powertools="none",
        is_met=costs.s3_on_the_claim_path == 0 and costs.s3_puts <= S3_PUTS,
    )
    yield GoalRow(
        what="$ for an idle month",
        goal=f"≤ {IDLE_MONTH:g}",
        oncely=f"{costs.idle_month:.2f}",
        powertools="",
        is_met=costs.idle_month <= IDLE_MONTH,
    )


def _calls(calls: CallCounts) -> str:
    return f"{calls.new} · {calls.duplicate} · {calls.bad}"
