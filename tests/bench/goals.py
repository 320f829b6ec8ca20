"""The goals and their figures: which are met, and by how much."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.bench.figures import CostFigures, Figures

CPU_OVER_POWERTOOLS = 1.15
IMPORT = 1.25
READY = 1.5
BATCH = 1.3
WRITE_UNITS = {"natural": 4, "smallest keyed": 4, "payment.charge": 12, "receipt.send": 6}
ROW_BYTES = 1_000
DOLLARS = (4, 18, 7)
S3_PUTS = 0.02
IDLE_MONTH = 7
GATE_WRITES = (0.2, 0.3)  # with room, and full
REFUSED_SHARE = 0.01


class GoalRow(NamedTuple):
    what: str
    goal: str
    oncely: str
    powertools: str
    is_met: bool


def _at_most(what: str, limit: float, ours: float, theirs: str, spec: str = ".2f") -> GoalRow:
    return GoalRow(what, f"≤ {limit:{spec}}", f"{ours:.2f}", theirs, ours <= limit)


def goal_rows(f: Figures) -> Iterator[GoalRow]:
    calls, theirs = (
        f"{one.new} · {one.duplicate} · {one.bad}" for one in (f.calls, f.powertools_calls)
    )
    what = "DynamoDB calls: new · duplicate · bad message"
    yield GoalRow(what, "2 · 1 · 0", calls, theirs, calls == "2 · 1 · 0")
    what = "CPU of a job, one by one, over the same job on Powertools"
    yield _at_most(what, CPU_OVER_POWERTOOLS, f.cpu_over_powertools, "1")
    imported = f"{f.powertools_import.ratio:.2f}"
    what = "CPU of importing the worker over one bare `boto3.client`"
    yield _at_most(what, IMPORT, f.worker_import.ratio, imported)
    what = "the same until it is ready for the first message"
    yield _at_most(what, READY, f.worker_ready.ratio, imported)
    what = f"wall time of a batch of ten over the provider's {1000 * f.latency:.0f} ms"
    theirs = f"{f.powertools_batch.over_latency:.2f}"
    yield _at_most(what, BATCH, f.batch.over_latency, theirs, ".1f")
    reads = [found.read for found in f.finds]
    what = "items a sweep reads to find ten due jobs: 1 k · 10 k · 100 k rows"
    yield GoalRow(what, "flat", " · ".join(map(str, reads)), "nothing looks", len({*reads}) == 1)
    yield from _cost_rows(f.costs)
    yield from _gate_rows(f)


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
    what = "PutObject requests of the smallest job, at 100 jobs/s"
    yield GoalRow(what, f"≤ {S3_PUTS:g}", f"{costs.s3_puts:.4g}", "none", costs.s3_puts <= S3_PUTS)
    yield _at_most("$ for an idle month", IDLE_MONTH, costs.idle_month, "", "g")


def _gate_rows(f: Figures) -> Iterator[GoalRow]:
    room, full, *_ = f.gates
    units = (room.writes_per_job, full.writes_per_job)
    yield GoalRow(
        "write units of the gate for a job: 100 jobs/s under 200/s · 25 under 25/s",
        "≤ " + " · ".join(map(str, GATE_WRITES)),
        " · ".join(f"{one:.2f}" for one in units),
        "no limit",
        all(one <= most for one, most in zip(units, GATE_WRITES, strict=True)),
    )
    yield GoalRow(
        "requests in its worst second, at each limit",
        "≤ " + " · ".join(f"{one.limit + 1:.0f}" for one in f.gates),
        " · ".join(str(one.worst_second) for one in f.gates),
        "no limit",
        all(one.worst_second <= one.limit + 1 for one in f.gates),
    )
    gated, _ = f.outages
    yield GoalRow(
        f"seconds until {gated.jobs:,} unknown jobs ended, at {gated.rate:.0f} lookups/s",
        f"≤ {gated.limit_seconds:.0f}",
        f"{gated.seconds:.0f}",
        "nothing looks",
        gated.finished == gated.jobs and gated.seconds <= gated.limit_seconds,
    )
    yield GoalRow(
        "lookups of these that were answered 429",
        f"< {REFUSED_SHARE:.0%}",
        f"{gated.refused_share:.1%}",
        "",
        gated.refused_share < REFUSED_SHARE,
    )
