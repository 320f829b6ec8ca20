"""Renders docs/scale.md: what binds at which rate, and what removes it."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from string import digits
from typing import Final

from oncely.aws.dynamodb_due_index import INDEX as DUE_INDEX
from oncely.jobs.payment_charge import REQUESTED_INDEX
from oncely_cdk.paths import REPOSITORY
from oncely_cdk.stages import Stage
from oncely_cdk.table_schemas import JOBS
from tests.bench import cost_model as dollars
from tests.bench import prices, quotas
from tests.bench.capacity import TABLE
from tests.bench.cost_model import BATCH_TIMINGS
from tests.bench.cost_page import CostMeasurements
from tests.bench.counting import PAYMENT_COUNT, JobUsage
from tests.bench.metering import UnitsByIndex
from tests.bench.tables import table

PAGE: Final = REPOSITORY / "docs" / "scale.md"
RATES: Final = (100, 1_000, 10_000, 100_000)
UNKNOWN_JOBS: Final = 100_000
PROVIDER_READS: Final = 100  # a second

_BATCH: Final[int] = Stage.model_fields["batch_size"].default
_WORKERS: Final[int] = Stage.model_fields["worker_concurrency"].default
_SMALLEST: Final = "smallest keyed"
_PAYMENT: Final = "payment.charge"
_JOB_LABELS: Final = {_SMALLEST: "small jobs", _PAYMENT: "payments"}
STRIPE_WRITES: Final = 2  # create and confirm, unless something goes wrong


def render(m: CostMeasurements) -> str:
    return "\n".join(
        part(m) for part in (_intro, _binding_limits, _limits, _partitions, _drain, _sources)
    )


def _intro(_: CostMeasurements) -> str:
    return f"""# How it scales

Written by `make docs` from counted units, default settings and default quotas of us-east-1, looked
up in {prices.AS_OF}: do not edit it. [What it costs](costs.md) says how units are counted.

Nothing is lost at any of these limits. A throttled write is retried within the job's budget, then
the message or the row's due time brings the job back. What grows is the age of the oldest message,
which has an alarm.
"""


def _binding_limits(m: CostMeasurements) -> str:
    smallest, payment = m.counts.job(_SMALLEST), m.counts.job(_PAYMENT)
    head = ("jobs/s", *(f"{rate:,}" for rate in RATES))
    return f"""## What a rate needs

For the smallest keyed job, which waits 200 ms for its provider, in full batches of {_BATCH}:

{table(head, _needs(m, smallest))}

For `payment.charge`, with {BATCH_TIMINGS[_PAYMENT].seconds:g} s for a batch:

{table(head, _needs(m, payment))}

**Bold** is above a default quota or setting; the next section says which.
"""


def _needs(m: CostMeasurements, job: JobUsage) -> Iterator[tuple[str, ...]]:
    units = _units(job)
    tables = {place: count for place, count in units.items() if place[1] == TABLE}
    indexes = {place: count for place, count in units.items() if place[1] != TABLE}
    largest, busiest = max(tables.values()), max(indexes.values())
    yield _row("write units of the busiest table", largest, quotas.TABLE_WRITES.value)
    yield _row("write units of the busiest index", busiest, quotas.TABLE_WRITES.value)
    hot = max(_hottest(m, units).values(), default=0.0)
    yield _row("write units of the hottest index partition", hot, quotas.PARTITION_WRITES.value)
    yield _row("worker functions at once", _functions(job.name), _WORKERS)
    yield _row("messages in flight", BATCH_TIMINGS[job.name].seconds, quotas.IN_FLIGHT.value)
    if events := job.requests["bus.publish"]:
        yield _row("PutEvents", events, quotas.PUT_EVENTS.value)
    if puts := job.requests["archive.keep"]:
        yield _row("PutObject", puts, quotas.PREFIX_PUTS.value)
    if job.name == _PAYMENT:
        yield _row("Stripe requests", STRIPE_WRITES, quotas.STRIPE_REQUESTS.value)
    dollars_an_hour = dollars.bill_total(m.bill(job)) / 10**6 * 3600
    yield ("$ an hour, without storage", *(f"{rate * dollars_an_hour:,.2f}" for rate in RATES))


def _row(what: str, each: float, limit: float) -> tuple[str, ...]:
    needs = (math.ceil(rate * each) for rate in RATES)
    return (what, *(f"**{need:,}**" if need > limit else f"{need:,}" for need in needs))


def _hottest(m: CostMeasurements, units: UnitsByIndex) -> dict[tuple[str, str], float]:
    values: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for (name, index, partition), count in m.counts.hot_partitions.items():
        values[name, index][partition] = count
    hottest: dict[tuple[str, str], float] = {}
    for (name, index), counts in values.items():
        if (name, index) not in units or len(counts) >= PAYMENT_COUNT:
            continue  # partitioned by an id: as many partitions as jobs
        kinds: dict[str, list[int]] = defaultdict(list)  # the shards of one status, for instance
        for partition, count in counts.items():
            kinds[partition.rstrip(digits)].append(count)
        each = max(sum(shards) / PAYMENT_COUNT / len(shards) for shards in kinds.values())
        # The shop made the entry that the end of a payment removes.
        hottest[name, index] = each if name == JOBS else 2 * each
    return hottest


@dataclass(frozen=True, kw_only=True)
class ScaleLimit:
    rate: float
    owner: str  # payments, small jobs
    what: str
    removed_by: str

    @property
    def line(self) -> tuple[str, ...]:
        first = next((rate for rate in RATES if rate > self.rate), None)
        return (
            f"{self.rate:,.0f} {self.owner}/s",
            "-" if first is None else f"{first:,}",
            self.what,
            self.removed_by,
        )


def _limits(m: CostMeasurements) -> str:
    found = (*_provider_limits(), *_function_limits(), *_table_limits(m), *_event_limits(m))
    lines = [limit.line for limit in sorted(found, key=lambda one: (one.rate, one.owner))]
    return f"""## What binds, and what removes it

{table(("binds at", "seen first at", "what", "what removes it"), lines)}

SQS itself takes nearly any rate. Step Functions starts {quotas.EXECUTIONS.value:g} executions and
makes {quotas.TRANSITIONS.value:,.0f} transitions a second; a sweep each minute comes nowhere near.
Lambda reads the table's stream without being billed for it, one batch at a time for each shard.
A table has a shard for each of its partitions, so the stream grows with the table.
"""


def _provider_limits() -> Iterator[ScaleLimit]:
    yield ScaleLimit(
        rate=min(quotas.STRIPE_ENDPOINT.value, quotas.STRIPE_REQUESTS.value / STRIPE_WRITES),
        owner="payments",
        what=(
            f"Stripe: {quotas.STRIPE_ENDPOINT.value:g} requests a second for each endpoint, "
            f"{quotas.STRIPE_REQUESTS.value:g} for all; a payment makes {STRIPE_WRITES}"
        ),
        removed_by="ask Stripe; until then `payments_worker_concurrency` keeps the rate",
    )
    yield ScaleLimit(
        rate=quotas.HUBSPOT_REQUESTS.value,
        owner="contacts",
        what="HubSpot: 190 requests in ten seconds",
        removed_by="HubSpot's API add-on, 250; messages with `record` need no request",
    )


def _function_limits() -> Iterator[ScaleLimit]:
    for name, whose in _JOB_LABELS.items():
        yield ScaleLimit(
            rate=_WORKERS / _functions(name),
            owner=whose,
            what=(
                f"`worker_concurrency` = {_WORKERS} functions for each queue: few enough for a "
                "provider's test mode"
            ),
            removed_by="`-c worker_concurrency=…`, or for a queue `payments_worker_concurrency`",
        )
        yield ScaleLimit(
            rate=quotas.CONCURRENT_FUNCTIONS.value / _functions(name),
            owner=whose,
            what=(
                f"Lambda: {quotas.CONCURRENT_FUNCTIONS.value:,.0f} functions at once in an account"
                f" and on a queue, {quotas.NEW_POLLERS_A_MINUTE.value:g} more each minute"
            ),
            removed_by=(
                "Service Quotas: concurrent executions; then a second queue, or pollers in "
                "provisioned mode"
            ),
        )
        yield ScaleLimit(
            rate=quotas.IN_FLIGHT.value / BATCH_TIMINGS[name].seconds,
            owner=whose,
            what=f"SQS: {quotas.IN_FLIGHT.value:,.0f} messages in flight on a queue",
            removed_by="Service Quotas, or a second queue",
        )


def _functions(name: str) -> float:
    return BATCH_TIMINGS[name].seconds / _BATCH


_MORE_SHARDS: Final = {
    DUE_INDEX: "`-c due_shards=…`",
    REQUESTED_INDEX: "`CHARGE_SHARDS` in the contract, and in what producers set",
}


def _table_limits(m: CostMeasurements) -> Iterator[ScaleLimit]:
    for name, whose in _JOB_LABELS.items():
        units = _units(m.counts.job(name))
        for (where, index), each in _hottest(m, units).items():
            yield ScaleLimit(
                rate=quotas.PARTITION_WRITES.value / each,
                owner=whose,
                what=(
                    f"the hottest partition of `{where}.{index}`: "
                    f"{quotas.PARTITION_WRITES.value:,.0f} write units a second"
                ),
                removed_by=_MORE_SHARDS.get(index, "more shards of that index"),
            )
        (where, index), each = max(units.items(), key=lambda one: one[1])
        place = where if index == TABLE else f"{where}.{index}"
        yield ScaleLimit(
            rate=quotas.NEW_TABLE_WRITES.value / each,
            owner=whose,
            what=(
                f"`{place}` while it is new: {quotas.NEW_TABLE_WRITES.value:,.0f} write units a "
                "second, later twice the last peak within 30 minutes"
            ),
            removed_by="the table's warm throughput, set before the peak",
        )
        yield ScaleLimit(
            rate=quotas.TABLE_WRITES.value / each,
            owner=whose,
            what=f"`{place}`: {quotas.TABLE_WRITES.value:,.0f} write units a second",
            removed_by="Service Quotas: table-level write throughput",
        )


def _event_limits(m: CostMeasurements) -> Iterator[ScaleLimit]:
    requests = m.counts.job(_SMALLEST).requests
    if requests["bus.publish"]:
        yield ScaleLimit(
            rate=quotas.PUT_EVENTS.value,
            owner="events",
            what="EventBridge: PutEvents",
            removed_by="Service Quotas; publish only events that someone reads",
        )
    if requests["archive.keep"]:
        yield ScaleLimit(
            rate=quotas.PREFIX_PUTS.value,
            owner="ended jobs",
            what="S3: PutObject under one prefix, until S3 has partitioned it",
            removed_by="time, or AWS Support: S3 partitions a prefix that is busy",
        )


def _units(job: JobUsage) -> UnitsByIndex:
    return job.run.writes + job.publish.writes


def _partitions(m: CostMeasurements) -> str:
    units = _units(m.counts.job(_PAYMENT))
    hottest = _hottest(m, units)
    lines = [
        (
            f"`{name}.{index}`",
            f"{units[name, index]:g}",
            f"{hottest[name, index]:.2f}" if (name, index) in hottest else "by id",
        )
        for name, index in sorted(units)
        if index != TABLE
    ]
    return f"""## Index partitions of a payment

Counted over {PAYMENT_COUNT} payments: which partition of each index they wrote to. One partition
takes {quotas.PARTITION_WRITES.value:,.0f} units a second. An index by id has a
partition for each id.

{table(("index", "units a job", "of these in the hottest partition"), lines)}
"""


def _drain(_: CostMeasurements) -> str:
    at_rate = UNKNOWN_JOBS / PROVIDER_READS / 60
    of_a_sweep = dollars.MAX_JOBS_PER_SWEEP
    sweeps = 0.0 if of_a_sweep is None else UNKNOWN_JOBS / of_a_sweep
    bound = (
        "That rate is the bound: a sweep goes on until nothing is due. With the time of pages and\n"
        "groups it is about 23 minutes, extrapolated from 3,000 jobs with a moved clock."
        if of_a_sweep is None
        else f"The sweep is the bound: it takes {of_a_sweep} jobs each minute, "
        f"so they take {sweeps / 60:.1f} hours."
    )
    default = _WORKERS * _BATCH / BATCH_TIMINGS[_PAYMENT].seconds
    hour = default * 3600
    return f"""## After an outage

**Unknown jobs.** The provider was away and {UNKNOWN_JOBS:,} jobs are `unknown`.
At {PROVIDER_READS} reads a second and one read each, asking takes {at_rate:.0f} minutes at least.
{bound}

**Messages that waited.** A queue is worked off at the rate of its workers. With the default
`worker_concurrency`, that is {default:.0f} payments a second, {hour:,.0f} an hour, less what still
arrives. Raise it for the time, up to the provider's rate. Messages wait for
`queue_retention_days`, and a job whose row exists does not need its message.
"""


def _sources(_: CostMeasurements) -> str:
    known = {
        quota.source: None for quota in vars(quotas).values() if isinstance(quota, quotas.Quota)
    }
    lines = "\n".join(f"- {source}" for source in known)
    return f"""## Sources

{lines}
"""
