"""Renders docs/costs.md from counted units, the kept template and list prices."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncely.aws import signals
from oncely.aws.signals import DuplicateReason
from oncely_cdk.paths import REPOSITORY
from tests.bench import cost_model, prices
from tests.bench.capacity import TABLE
from tests.bench.cost_model import BATCH_TIMINGS, Bill, bill_total
from tests.bench.counting import DUE_JOBS, JobUsage, MeteredStep, UsageCounts
from tests.bench.figures import CostFigures, CostLine
from tests.bench.inventory import Inventory
from tests.bench.log_bytes import LogBytes
from tests.bench.page import comparison, fill_template, table

PAGE: Final = REPOSITORY / "docs" / "costs.md"

# The AWS calls behind the ports.
_CALLS: Final = {"bus.publish": "PutEvents", "outbox.send": "SendMessageBatch"}
_ORDER: Final = {"payment.charge": "PaymentsWorker/Worker", "receipt.send": "MailWorker/Worker"}
# Finished sweeps have their own line in the bill.
_METRICS: Final = {
    name for name, value in vars(signals).items() if name.isupper() and isinstance(value, str)
} - {"NAMESPACE", "SWEEP_FINISHED"}


@dataclass(frozen=True, kw_only=True)
class CostMeasurements:
    counts: UsageCounts
    logs: Mapping[str, LogBytes]  # by the name of the job
    inventory: Inventory

    def bill(self, *names: str) -> Bill:
        """A million of each of these jobs, without storage."""
        return tuple(
            line
            for name in names
            for line in cost_model.million_jobs_bill(
                self.counts.job(name), self.logs[name], self.inventory
            )
        )

    def storage(self, job: JobUsage) -> Bill:
        return cost_model.storage_bill(job, self.inventory)

    def unknown(self) -> Bill:
        return cost_model.resolution_bill(self.counts.job("payment.charge"), self.inventory)

    def idle_month(self) -> Bill:
        return cost_model.idle_month_bill(self.counts, self.inventory)

    def comparison(self) -> tuple[CostLine, ...]:
        return cost_model.compare_bills(self.bill("smallest keyed"), cost_model.powertools_bill())

    def figures(self) -> CostFigures:
        """What `make bench` compares with its goals."""
        smallest = self.counts.job("smallest keyed")
        return CostFigures(
            write_units={job.name: job.write_units for job in self.counts.jobs},
            row_bytes={job.name: job.max_row_bytes for job in self.counts.jobs},
            smallest=bill_total(self.bill("smallest keyed")),
            powertools=bill_total(cost_model.powertools_bill()),
            order=bill_total(self.bill(*_ORDER)),
            unknown=bill_total(self.unknown()),
            idle_month=bill_total(self.idle_month()),
            s3_puts=cost_model.history_puts(smallest, self.inventory),
        )


def render(m: CostMeasurements) -> str:
    log = m.logs["smallest keyed"]
    more = len(_METRICS) + len(DuplicateReason)
    return fill_template(
        "costs.md",
        prices=prices,
        jobs=_jobs(m),
        units=_units(m),
        steps=_steps(m),
        pace=BATCH_TIMINGS["smallest keyed"],
        powertools=cost_model.POWERTOOLS,
        comparison=comparison(m.comparison()),
        payment=_bill(m.bill("payment.charge")),
        unknown=_bill(m.unknown()),
        calls=_calls(m),
        storage=_storage(m),
        payment_storage=_bill(m.storage(m.counts.job("payment.charge"))),
        log=log,
        log_alone=log.per_job(1) / 1000,
        log_batched=log.per_job(10) / 1000,
        idle_month=_bill(m.idle_month()),
        open_page=_bill(cost_model.open_page_bill()),
        more=more,
        more_dollars=more * prices.METRIC,
        events_dollars=cost_model.polls_bill(1) + prices.ALARM_METRIC + prices.SECRET,
    )


def _jobs(m: CostMeasurements) -> str:
    lines = [
        (
            _name(job),
            f"{job.write_units:g}",
            f"{job.read_units:g}",
            f"{job.row_bytes:,}",
            f"{bill_total(m.bill(job.name)):.2f}",
            f"{job.retention_days:g} days",
            f"{bill_total(m.storage(job)):.2f}",
        )
        for job in m.counts.jobs
    ]
    order, theirs = bill_total(m.bill(*_ORDER)), bill_total(cost_model.powertools_bill())
    lines += [
        ("**order with receipt**", "", "", "", f"**{order:.2f}**", "", ""),
        ("smallest job on Powertools", "2", "0", "", f"{theirs:.2f}", "an hour", ""),
    ]
    head = ("job", "write units", "read units", "row, bytes", "$", "row kept", "$ for storage")
    return table(head, lines)


def _name(job: JobUsage) -> str:
    return f"`{job.name}`" if "." in job.name else job.name


def _units(m: CostMeasurements) -> str:
    places = sorted({place for job in m.counts.jobs for place in job.writes})
    head = ("job", *(f"`{name if index == TABLE else index}`" for name, index in places), "all")
    lines = (
        (_name(job), *(f"{job.writes[one] or ''}" for one in places), f"**{job.write_units:g}**")
        for job in m.counts.jobs
    )
    return table(head, lines)


def _steps(m: CostMeasurements) -> str:
    steps: list[tuple[str, MeteredStep | None]] = []
    for job in m.counts.jobs:
        steps += [
            (f"{_name(job)}: the worker", job.run),
            (f"{_name(job)}: the publisher", job.publish if job.publish.calls else None),
            (f"{_name(job)}: a duplicate", job.duplicate),
            (f"{_name(job)}: other values under the same key", job.contradicting),
            (f"{_name(job)}: unknown, then resolved, in total", job.unknown),
        ]
    steps += [
        ("a sweep that finds nothing", m.counts.idle_sweep),
        (f"a sweep that finds {DUE_JOBS} jobs, without resolving them", m.counts.sweep),
    ]
    lines = [
        (name, f"{step.write_units:g}", f"{step.read_units:g}")
        for name, step in steps
        if step is not None
    ]
    return table(("step", "write units", "read units"), [*lines, ("an invalid message", "0", "0")])


def _bill(lines: Bill) -> str:
    rows = [(line.what, line.how, f"{line.dollars:.2f}") for line in lines]
    rows.append(("**total**", "", f"**{bill_total(lines):.2f}**"))
    return table(("what", "calculation", "$"), rows)


def _calls(m: CostMeasurements) -> str:
    found: Counter[tuple[str, str]] = Counter()
    for name, function in _ORDER.items():
        job = m.counts.job(name)
        for place, step in ((function, job.run), ("Stream/Publish", job.publish)):
            found.update((place, call.operation) for call in step.calls)
            for request, times in step.requests.items():
                found[place, _CALLS.get(request, request)] += times
    lines = ((*one, str(times)) for one, times in sorted(found.items()))
    return table(("function", "call", "times"), lines)


def _storage(m: CostMeasurements) -> str:
    lines = (
        (
            _name(job),
            f"{job.stored_bytes:,}",
            f"{job.retention_days:g} days",
            f"{bill_total(m.storage(job)):.2f}",
            f"{cost_model.infrequent_access_delta(job):+.2f}",
        )
        for job in m.counts.jobs
    )
    return table(("job", "bytes", "kept", "$ for a million", "with Standard-IA"), lines)
