"""Renders docs/scale.md: which limit applies at which rate, and how to raise it."""

import math
from collections import defaultdict
from collections.abc import Iterator
from string import digits
from typing import Final, NamedTuple

from oncely.jobs.tables import REQUESTED_INDEX
from oncely.operate.own_tables import JOBS
from oncely.reconcile.due_index import INDEX as DUE_INDEX
from oncely_cdk.paths import REPOSITORY
from oncely_cdk.stages import OncelySettings
from tests.bench import prices, quotas
from tests.bench.capacity import TABLE
from tests.bench.cost_model import BATCH_TIMINGS, bill_total
from tests.bench.cost_page import CostMeasurements
from tests.bench.counting import PAYMENT_COUNT, JobUsage
from tests.bench.metering import UnitsByIndex
from tests.bench.page import fill_template, table

PAGE: Final = REPOSITORY / "docs" / "scale.md"
RATES: Final = (100, 1_000, 10_000, 100_000)
UNKNOWN_JOBS: Final = 100_000
PROVIDER_READS: Final = 100  # a second

_BATCH: Final[int] = OncelySettings.model_fields["batch_size"].default
_WORKERS: Final[int] = OncelySettings.model_fields["worker_concurrency"].default
_SMALLEST: Final = "smallest keyed"
_PAYMENT: Final = "payment.charge"
_JOB_LABELS: Final = {_SMALLEST: "small jobs", _PAYMENT: "payments"}
STRIPE_WRITES: Final = 2  # create and confirm, unless something goes wrong
_MORE_SHARDS: Final = {
    DUE_INDEX: "`due_shards`",
    REQUESTED_INDEX: "`CHARGE_SHARDS` in the job's tables, and in what producers set",
}


def render(m: CostMeasurements) -> str:
    rate = _WORKERS * _BATCH / BATCH_TIMINGS[_PAYMENT].seconds
    known = (one.source for one in vars(quotas).values() if isinstance(one, quotas.Quota))
    return fill_template(
        "scale.md",
        prices=prices,
        quotas=quotas,
        batch=_BATCH,
        smallest_needs=_needs(m, m.counts.job(_SMALLEST)),
        pace=BATCH_TIMINGS[_PAYMENT],
        payment_needs=_needs(m, m.counts.job(_PAYMENT)),
        limits=_limits(m),
        payment_count=PAYMENT_COUNT,
        partitions=_partitions(m),
        unknown_jobs=UNKNOWN_JOBS,
        provider_reads=PROVIDER_READS,
        minutes=UNKNOWN_JOBS / PROVIDER_READS / 60,
        rate=rate,
        hourly_rate=rate * 3600,
        sources="\n".join(f"- {source}" for source in dict.fromkeys(known)),
    )


def _needs(m: CostMeasurements, job: JobUsage) -> str:
    units = job.writes
    largest = max(count for (_, index), count in units.items() if index == TABLE)
    busiest = max(count for (_, index), count in units.items() if index != TABLE)
    hot = max(_hottest(m, units).values(), default=0.0)
    stripe = STRIPE_WRITES if job.name == _PAYMENT else 0
    rows = (
        ("write units of the busiest table", largest, quotas.TABLE_WRITES.value),
        ("write units of the busiest index", busiest, quotas.TABLE_WRITES.value),
        ("write units of the hottest index partition", hot, quotas.PARTITION_WRITES.value),
        ("worker functions at once", _functions(job.name), _WORKERS),
        ("messages in flight", BATCH_TIMINGS[job.name].seconds, quotas.IN_FLIGHT.value),
        ("PutEvents", job.requests["bus.publish"], quotas.PUT_EVENTS.value),
        ("Stripe requests", stripe, quotas.STRIPE_REQUESTS.value),
    )
    lines = [(what, *_row(each, limit)) for what, each, limit in rows if each]
    hourly = bill_total(m.bill(job.name)) / 10**6 * 3600
    lines.append(("$ an hour, without storage", *(f"{rate * hourly:,.2f}" for rate in RATES)))
    return table(("jobs/s", *(f"{rate:,}" for rate in RATES)), lines)


def _row(each: float, limit: float) -> Iterator[str]:
    for rate in RATES:
        need = math.ceil(rate * each)
        yield f"**{need:,}**" if need > limit else f"{need:,}"


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
        # The shop created the entry that the ending write removes.
        hottest[name, index] = each if name == JOBS else 2 * each
    return hottest


class ScaleLimit(NamedTuple):
    """A limit that applies from this rate on, and how to raise it."""

    rate: float
    owner: str  # payments, small jobs
    what: str
    removed_by: str

    @property
    def line(self) -> tuple[str, ...]:
        first = next((f"{rate:,}" for rate in RATES if rate > self.rate), "-")
        return f"{self.rate:,.0f} {self.owner}/s", first, self.what, self.removed_by


def _limits(m: CostMeasurements) -> str:
    found = [*_provider_limits()]
    for name, owner in _JOB_LABELS.items():
        found += [*_function_limits(name, owner), *_table_limits(m, name, owner)]
    lines = (limit.line for limit in sorted(found, key=lambda one: (one.rate, one.owner)))
    return table(("applies from", "seen first at", "limit", "how to raise it"), lines)


def _provider_limits() -> Iterator[ScaleLimit]:
    yield ScaleLimit(
        min(quotas.STRIPE_ENDPOINT.value, quotas.STRIPE_REQUESTS.value / STRIPE_WRITES),
        "payments",
        f"Stripe: {quotas.STRIPE_ENDPOINT.value:g} requests a second for each endpoint, "
        f"{quotas.STRIPE_REQUESTS.value:g} for all; a payment makes {STRIPE_WRITES}",
        "ask Stripe; until then `queue_worker_concurrency` keeps the rate",
    )
    yield ScaleLimit(
        quotas.HUBSPOT_REQUESTS.value,
        "contacts",
        "HubSpot: 190 requests in ten seconds",
        "HubSpot's API add-on, 250; each import of a contact is one request",
    )


def _function_limits(name: str, owner: str) -> Iterator[ScaleLimit]:
    yield ScaleLimit(
        _WORKERS / _functions(name),
        owner,
        f"`worker_concurrency` = {_WORKERS} functions for each queue: few enough for a "
        "provider's test mode",
        "`worker_concurrency`, or for a queue `queue_worker_concurrency`",
    )
    yield ScaleLimit(
        quotas.CONCURRENT_FUNCTIONS.value / _functions(name),
        owner,
        f"Lambda: {quotas.CONCURRENT_FUNCTIONS.value:,.0f} functions at once in an account"
        f" and on a queue, {quotas.NEW_POLLERS_A_MINUTE.value:g} more each minute",
        "Service Quotas: concurrent executions; then a second queue, or pollers in "
        "provisioned mode",
    )
    yield ScaleLimit(
        quotas.IN_FLIGHT.value / BATCH_TIMINGS[name].seconds,
        owner,
        f"SQS: {quotas.IN_FLIGHT.value:,.0f} messages in flight on a queue",
        "Service Quotas, or a second queue",
    )


def _functions(name: str) -> float:
    """Functions at once for one job a second, in full batches."""
    return BATCH_TIMINGS[name].seconds / _BATCH


def _table_limits(m: CostMeasurements, name: str, owner: str) -> Iterator[ScaleLimit]:
    units = m.counts.job(name).writes
    for (where, index), each in _hottest(m, units).items():
        yield ScaleLimit(
            quotas.PARTITION_WRITES.value / each,
            owner,
            f"the hottest partition of `{where}.{index}`: "
            f"{quotas.PARTITION_WRITES.value:,.0f} write units a second",
            _MORE_SHARDS.get(index, "more shards of that index"),
        )
    (where, index), each = max(units.items(), key=lambda one: one[1])
    place = where if index == TABLE else f"{where}.{index}"
    yield ScaleLimit(
        quotas.NEW_TABLE_WRITES.value / each,
        owner,
        f"`{place}` while it is new: {quotas.NEW_TABLE_WRITES.value:,.0f} write units a "
        "second, later twice the last peak within 30 minutes",
        "the table's warm throughput, set before the peak",
    )
    yield ScaleLimit(
        quotas.TABLE_WRITES.value / each,
        owner,
        f"`{place}`: {quotas.TABLE_WRITES.value:,.0f} write units a second",
        "Service Quotas: table-level write throughput",
    )


def _partitions(m: CostMeasurements) -> str:
    units = m.counts.job(_PAYMENT).writes
    hottest = _hottest(m, units)
    lines = (
        (
            f"`{name}.{index}`",
            f"{units[name, index]:g}",
            f"{hottest[name, index]:.2f}" if (name, index) in hottest else "by id",
        )
        for name, index in sorted(units)
        if index != TABLE
    )
    return table(("index", "units a job", "of these in the hottest partition"), lines)
