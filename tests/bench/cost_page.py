"""Renders docs/costs.md from counted units, the kept template and list prices."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from oncely import signals
from oncely.run.outcomes import DuplicateReason
from oncely_cdk.paths import REPOSITORY
from tests.bench import cost_model as dollars
from tests.bench import prices
from tests.bench.capacity import TABLE
from tests.bench.cost_model import BATCH_TIMINGS, BillLine, bill_total
from tests.bench.counting import DUE_JOBS, JobUsage, MeteredStep, UsageCounts
from tests.bench.inventory import Inventory
from tests.bench.log_bytes import LogBytes
from tests.bench.tables import table

PAGE: Final = REPOSITORY / "docs" / "costs.md"

# What a port's call is at AWS.
_CALLS: Final = {
    "archive.find": "GetObject",
    "archive.keep": "PutObject",
    "bus.publish": "PutEvents",
    "outbox.send": "SendMessageBatch",
}
_ORDER: Final = {"payment.charge": "PaymentsWorker/Worker", "receipt.send": "MailWorker/Worker"}


@dataclass(frozen=True, kw_only=True)
class CostMeasurements:
    counts: UsageCounts
    logs: Mapping[str, LogBytes]  # by the name of the job
    inventory: Inventory

    def bill(self, job: JobUsage) -> tuple[BillLine, ...]:
        return dollars.million_jobs_bill(job, self.logs[job.name], self.inventory)


def render(m: CostMeasurements) -> str:
    parts = (_intro, _jobs, _units, _steps, _bills, _unknown, _calls, _storage, _logs, _idle)
    return "\n".join(part(m) for part in parts)


def _intro(_: CostMeasurements) -> str:
    return f"""# What it costs

Written by `make docs`: do not edit it. A test compares it with what the code does.

- **Counted**: DynamoDB units by table and index, requests, bytes of rows and logs. The shipped
  services run one job of each type with ids of real length, and `tests/bench/capacity.py`
  computes the units of each write from the row before and after. With `ENGINE=dynamodb-local` a
  test confirms every one of these with AWS's own engine.
- **Read from the template** that production deploys: alarms, queues, secrets, state transitions.
- **Assumed**: batch sizes and durations, which each line names, and 5 % of invocations traced.
- **Prices** are list prices of us-east-1 in US dollars without free tier, as known to us in
  {prices.AS_OF} and partly from memory: check yours before you rely on them. What Stripe, HubSpot
  and SES charge comes on top: SES alone is 100 for a million mails.
"""


def _jobs(m: CostMeasurements) -> str:
    lines = [_job_line(m, job) for job in m.counts.jobs]
    charge, receipt = (m.counts.job(name) for name in ("payment.charge", "receipt.send"))
    order = bill_total((*m.bill(charge), *m.bill(receipt)))
    theirs = bill_total(dollars.powertools_bill())
    lines += [
        ("**order with receipt**", "", "", "", f"**{order:.2f}**", "", ""),
        ("smallest job on Powertools", "2", "0", "", f"{theirs:.2f}", "an hour", ""),
    ]
    head = ("job", "write units", "read units", "row, bytes", "$", "row kept", "$ for storage")
    return f"""## A million jobs of each type

Sent straight to the queue and ended well. A row that a producer or the reconciler writes first,
or a job that is resolved later, costs more: see below.

{table(head, lines)}

Storage is that of the row with point-in-time recovery, and of its history in S3, for as long as
the row is kept.
"""


def _job_line(m: CostMeasurements, job: JobUsage) -> tuple[str, ...]:
    return (
        _name(job),
        f"{job.write_units:g}",
        f"{job.read_units:g}",
        f"{job.row_bytes:,}",
        f"{bill_total(m.bill(job)):.2f}",
        f"{job.retention_days:g} days",
        f"{bill_total(dollars.storage_bill(job, m.inventory)):.2f}",
    )


def _name(job: JobUsage) -> str:
    return f"`{job.name}`" if "." in job.name else job.name


def _units(m: CostMeasurements) -> str:
    bills = {job.name: job.run.writes + job.publish.writes for job in m.counts.jobs}
    places = sorted({place for bill in bills.values() for place in bill})
    head = ("job", *(f"`{name if index == TABLE else index}`" for name, index in places), "all")
    lines = [
        (
            _name(job),
            *(f"{bills[job.name][place] or ''}" for place in places),
            f"**{job.write_units:g}**",
        )
        for job in m.counts.jobs
    ]
    return f"""## Write units by table and index

A unit is a write of up to 1,024 bytes. A transaction takes two for each row, and one for each
entry of an index. Moving an entry of an index takes two.

{table(head, lines)}
"""


def _steps(m: CostMeasurements) -> str:
    lines = [line for job in m.counts.jobs for line in _job_steps(job)]
    idle, sweep = m.counts.idle_sweep, m.counts.sweep
    lines += [
        ("a sweep that finds nothing", *_format_units(idle)),
        (f"a sweep that finds {DUE_JOBS} jobs, without resolving them", *_format_units(sweep)),
        ("a message that is no job", "0", "0"),
    ]
    return f"""## Steps

{table(("step", "write units", "read units"), lines)}

A write that a condition refuses costs as many units as the row that is there; DynamoDB Local does
not count those, so they are the model's.
"""


def _job_steps(job: JobUsage) -> Iterable[tuple[str, ...]]:
    name = _name(job)
    yield (f"{name}: the worker", *_format_units(job.run))
    if job.publish.calls:
        yield (f"{name}: the publisher", *_format_units(job.publish))
    yield (f"{name}: a duplicate", *_format_units(job.duplicate))
    if job.contradicting is not None:
        yield (f"{name}: other values under the same key", *_format_units(job.contradicting))
    if job.unknown is not None:
        yield (f"{name}: unknown, then resolved, altogether", *_format_units(job.unknown))


def _format_units(step: MeteredStep) -> tuple[str, str]:
    return f"{step.write_units:g}", f"{step.read_units:g}"


def _bills(m: CostMeasurements) -> str:
    smallest = m.counts.job("smallest keyed")
    both = dollars.compare_bills(m.bill(smallest), dollars.powertools_bill())
    beside = [(one.what, f"{one.oncely:.2f}", f"{one.powertools:.2f}") for one in both]
    sums = (bill_total(m.bill(smallest)), bill_total(dollars.powertools_bill()))
    beside.append(("**together**", f"**{sums[0]:.2f}**", f"**{sums[1]:.2f}**"))
    charge = m.counts.job("payment.charge")
    return f"""## The smallest job, beside Powertools

Both wait 200 ms for a provider. Oncely waits for ten messages at once, a batch takes
{BATCH_TIMINGS[smallest.name].seconds:g} s. Powertools waits for one after the other:
{dollars.POWERTOOLS.seconds:g} s.

{table(("what", "Oncely", "Powertools"), beside)}

## A payment, line by line

{_bill(m.bill(charge))}
"""


def _bill(lines: Iterable[BillLine]) -> str:
    lines = tuple(lines)
    rows = [(line.what, line.how, f"{line.dollars:.2f}") for line in lines]
    rows.append(("**together**", "", f"**{bill_total(lines):.2f}**"))
    return table(("what", "how it comes about", "$"), rows)


def _unknown(m: CostMeasurements) -> str:
    charge = m.counts.job("payment.charge")
    return f"""## A payment whose outcome is unknown, on top

The answer of the confirm call is lost, and the first sweep asks Stripe and ends the job. For a
million of *those*:

{_bill(dollars.resolution_bill(charge, m.inventory))}
"""


def _calls(m: CostMeasurements) -> str:
    found: Counter[tuple[str, str]] = Counter()
    for name, function in _ORDER.items():
        job = m.counts.job(name)
        found.update(_count_calls(function, job.run))
        found.update(_count_calls("Stream/Publish", job.publish))
    lines = [(*one, str(times)) for one, times in sorted(found.items())]
    return f"""## Calls for one paid order and its receipt

An end-to-end test compares the workers' lines with the calls that the deployed stack makes.

{table(("function", "call", "times"), lines)}
"""


def _count_calls(function: str, step: MeteredStep) -> Counter[tuple[str, str]]:
    names = Counter(call.operation for call in step.calls)
    for request, times in step.requests.items():
        names[_CALLS.get(request, request)] += times
    return Counter({(function, name): times for name, times in names.items()})


def _storage(m: CostMeasurements) -> str:
    lines = [
        (
            _name(job),
            f"{job.stored_bytes:,}",
            f"{job.retention_days:g} days",
            f"{bill_total(dollars.storage_bill(job, m.inventory)):.2f}",
            f"{dollars.infrequent_access_delta(job):+.2f}",
        )
        for job in m.counts.jobs
    ]
    head = ("job", "bytes", "kept", "$ for a million", "with Standard-IA")
    return f"""## Storage

The row and its entries in the indexes, with the 100 bytes that DynamoDB bills for each. Storage
is {prices.STORED_GIGABYTE:.2f} a gigabyte and month, point-in-time recovery
{prices.BACKUP_GIGABYTE:.2f}. TTL deletes for free.

{table(head, lines)}

Line by line, for `payment.charge`:

{_bill(dollars.storage_bill(m.counts.job("payment.charge"), m.inventory))}

The last column of the first table is what `-c table_class=standard_infrequent_access` changes:
units cost a quarter more, storage {prices.STORED_GIGABYTE_IA:.2f} instead of
{prices.STORED_GIGABYTE:.2f}. It pays where the figure is negative: for rows that are kept for long.
"""


def _logs(m: CostMeasurements) -> str:
    log = m.logs["smallest keyed"]
    alone, batched = log.per_job(1) / 1000, log.per_job(10) / 1000
    return f"""## Logs

The smallest job writes {batched:.2f} kB in a batch of ten, {alone:.2f} kB alone. One line for
each job has {log.job_lines} bytes, more than half of them the invocation's context: names, ARN,
request and trace. The metrics of a batch are one line of {log.metrics} bytes, and Lambda's own
three lines have about {log.platform}.
"""


def _idle(m: CostMeasurements) -> str:
    lines = dollars.idle_month_bill(m.counts, m.inventory)
    names = {name for name, value in vars(signals).items() if isinstance(value, str)}
    metrics = {name for name in names if name.isupper()} - {"NAMESPACE"}
    # The age of the oldest has its own line; duplicates have reasons as well.
    more = len(metrics - {"OLDEST_UNRESOLVED_AGE", "SWEEP_FINISHED"}) + len(DuplicateReason)
    return f"""## A month in which nothing happens

{_bill(lines)}

`-c dashboard=true` adds a dashboard: {prices.DASHBOARD:.2f} a month; the first three of an
account are free.
When jobs of all kinds run, up to {more} more metrics are emitted: {more * prices.METRIC:.2f} a
month at most.
The admin page costs by use: API Gateway, Cognito and its functions take about 0.01 for a thousand
requests.
"""
