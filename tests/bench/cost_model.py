"""What a million jobs cost: counted units, requests and bytes, times list prices."""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from oncely.contracts.settings import Settings
from oncely.operate.job_queries import MAX_COUNT
from oncely.operate.overview import MAX_REVIEWS, Series
from oncely_cdk.stages import OncelySettings
from tests.bench import prices
from tests.bench.counting import JobUsage, UsageCounts
from tests.bench.figures import CostLine
from tests.bench.inventory import Inventory
from tests.bench.log_bytes import LogBytes

WORKER_GIGABYTES: Final[float] = OncelySettings.model_fields["worker_memory_mb"].default / 1024

# A new table has this many partitions, and its stream as many shards.
SHARDS_OF_A_STREAM: Final = 4
# The rate at which the archive's batches are counted.
HISTORY_RATE: Final = 100  # jobs a second
# Lambda hands a function 6 MB at most: a record with both images is about 4 kB as JSON.
_PAYLOAD_RECORDS: Final = 1500


class BatchTiming(NamedTuple):
    """Assumed: how many messages Lambda delivers at once, and how long they take together."""

    batch: int
    seconds: float


# The smallest job waits 200 ms for its provider, ten concurrently (docs/benchmarks.md).
SMALLEST: Final = BatchTiming(10, 0.25)
BATCH_TIMINGS: Final = {
    "natural": SMALLEST,
    "smallest keyed": SMALLEST,
    "payment.charge": BatchTiming(5, 1.5),
    "receipt.send": BatchTiming(5, 0.3),
    "sync.contact": BatchTiming(5, 0.5),
    "sync.import": BatchTiming(1, 2.0),
    "sync.push": BatchTiming(5, 0.6),
}
# Powertools works the same ten one after the other, and writes its row twice (counted by
# `make bench`): once to claim, once with the result. Its rows expire after an hour.
POWERTOOLS: Final = BatchTiming(10, 2.08)
POWERTOOLS_WRITES: Final = 2
GATE_WRITES: Final = 2


class BillLine(NamedTuple):
    what: str
    how: str
    dollars: float


Bill: TypeAlias = tuple[BillLine, ...]


def _bill(*lines: tuple[str, str, float]) -> Bill:
    return tuple(BillLine(*line) for line in lines if line[2])


def bill_total(lines: Iterable[BillLine]) -> float:
    return sum(line.dollars for line in lines)


def million_jobs_bill(job: JobUsage, log: LogBytes, inventory: Inventory) -> Bill:
    pace = BATCH_TIMINGS[job.name]
    kilobytes = log.per_job(pace.batch) / 1000
    events = job.requests["bus.publish"]
    objects = history_puts(job, inventory)
    # Lambda reads a stream for free. Each batch lists the erasure log.
    history = prices.INVOCATION + prices.GIGABYTE_SECOND * prices.PUBLISH_GIGABYTES
    history += prices.S3_PUT + prices.S3_LIST
    publishing = prices.PUBLISH_SECONDS * prices.PUBLISH_GIGABYTES * prices.GIGABYTE_SECOND
    publishing += prices.INVOCATION / prices.PUBLISH_BATCH
    return _bill(
        ("DynamoDB writes", f"{job.write_units:g} units", job.write_units * prices.WRITE_UNIT),
        ("DynamoDB reads", f"{job.read_units:g} units", job.read_units * prices.READ_UNIT),
        _gate(job.name, pace),
        (
            "history",
            f"{_count_changes(job)} changes, {objects:.4f} objects at {HISTORY_RATE} jobs/s",
            objects * history,
        ),
        ("EventBridge", f"{events} event", events * prices.EVENT),
        _sqs(pace),
        _worker(pace, f"{1024 * WORKER_GIGABYTES:g} MB"),
        (
            "Lambda, publisher",
            f"{prices.PUBLISH_SECONDS:g} s",
            bool(job.publish.calls) * publishing,
        ),
        ("CloudWatch Logs", f"{kilobytes:.2f} kB", kilobytes * prices.LOG_GIGABYTE),
        _tracing(pace),
    )


def powertools_bill() -> Bill:
    pace = POWERTOOLS
    platform = prices.PLATFORM_BYTES + prices.PLATFORM_LINES * prices.LINE_BYTES
    kilobytes = platform / pace.batch / 1000
    writes = POWERTOOLS_WRITES
    return _bill(
        ("DynamoDB writes", f"{writes} units", writes * prices.WRITE_UNIT),
        _sqs(pace),
        _worker(pace, "one after the other"),
        (
            "CloudWatch Logs",
            f"{kilobytes:.2f} kB, Lambda's own lines",
            kilobytes * prices.LOG_GIGABYTE,
        ),
        _tracing(pace),
    )


def _sqs(pace: BatchTiming) -> BillLine:
    how = f"1 sent, and 2 requests for each batch of {pace.batch}"
    return BillLine("SQS", how, prices.SQS_REQUEST * (1 + 2 / pace.batch))


def _gate(job: str, pace: BatchTiming) -> BillLine:
    """The slots of a batch in the worst case: a failed write, a successful one, and a read."""
    if "." not in job:
        return BillLine("gate", "no provider", 0)
    units = GATE_WRITES * prices.WRITE_UNIT + prices.READ_UNIT
    how = f"{GATE_WRITES} write units and 1 read unit for each batch of {pace.batch}, at most"
    return BillLine("gate", how, units / pace.batch)


def _worker(pace: BatchTiming, how: str) -> BillLine:
    invocation = prices.INVOCATION + pace.seconds * WORKER_GIGABYTES * prices.GIGABYTE_SECOND
    how = f"{pace.seconds:g} s for a batch of {pace.batch}, {how}"
    return BillLine("Lambda, worker", how, invocation / pace.batch)


def _tracing(pace: BatchTiming) -> BillLine:
    how = f"{prices.TRACED:.0%} of the invocations"
    return BillLine("X-Ray", how, prices.TRACED * prices.TRACE / pace.batch)


def storage_bill(job: JobUsage, inventory: Inventory) -> Bill:
    months = job.retention_days / prices.DAYS_IN_A_MONTH
    days = f"GB for {job.retention_days:g} days"
    gigabytes = job.stored_bytes * 10**6 / prices.GIGABYTE
    history = _count_changes(job) * prices.HISTORY_LINE_BYTES / 1000 if inventory.history else 0
    return _bill(
        *(
            (what, f"{size:.2f} {days}", size * months * price)
            for what, size, price in (
                ("DynamoDB storage", gigabytes, prices.STORED_GIGABYTE),
                ("point-in-time recovery", gigabytes, prices.BACKUP_GIGABYTE),
                ("history in S3", history, prices.S3_GIGABYTE),
            )
        )
    )


def infrequent_access_delta(job: JobUsage) -> float:
    """The effect of the table class Standard-IA: more expensive units, cheaper storage."""
    months = job.retention_days / prices.DAYS_IN_A_MONTH
    gigabytes = job.stored_bytes * 10**6 / prices.GIGABYTE
    return (
        job.write_units * (prices.WRITE_UNIT_IA - prices.WRITE_UNIT)
        + job.read_units * (prices.READ_UNIT_IA - prices.READ_UNIT)
        - gigabytes * months * (prices.STORED_GIGABYTE - prices.STORED_GIGABYTE_IA)
    )


def resolution_bill(job: JobUsage, inventory: Inventory) -> Bill:
    unknown = job.unknown
    assert unknown is not None
    writes = unknown.write_units - job.write_units
    reads = unknown.read_units - job.read_units
    settings = Settings()
    jobs = settings.sweep_group_size
    transitions = inventory.transitions_of_an_iteration / jobs
    seconds = prices.RESOLVE_SECONDS / settings.sweep_jobs_at_once
    invocation = prices.INVOCATION / jobs + seconds * WORKER_GIGABYTES * prices.GIGABYTE_SECOND
    return _bill(
        ("Step Functions", f"{transitions:.2g} transitions", transitions * prices.TRANSITION),
        (
            "DynamoDB",
            f"{writes:g} write and {reads:g} read units",
            writes * prices.WRITE_UNIT + reads * prices.READ_UNIT,
        ),
        ("Lambda, resolver", f"{seconds:.2g} s", invocation),
    )


def polls_bill(queues: int) -> float:
    """What Lambda's pollers cost in a month, on queues in which nothing arrives."""
    polls = queues * prices.POLLERS * prices.MONTH_SECONDS / prices.POLL_SECONDS
    return polls / 10**6 * prices.SQS_REQUEST


def idle_month_bill(counts: UsageCounts, inventory: Inventory) -> Bill:
    millions = inventory.sweeps_each_month / 10**6
    queues, transitions = inventory.polled_queues, inventory.idle_transitions
    alarms, keys, secrets, dashboards = (
        len(inventory.of_type(f"AWS::{name}"))
        for name in (
            "CloudWatch::Alarm",
            "KMS::Key",
            "SecretsManager::Secret",
            "CloudWatch::Dashboard",
        )
    )
    metrics = inventory.alarm_metrics
    seconds = prices.SWEEP_SECONDS * prices.SWEEP_GIGABYTES
    invocation = prices.INVOCATION + seconds * prices.GIGABYTE_SECOND
    reads = counts.idle_sweep.read_units
    return _bill(
        (
            "Step Functions",
            f"a sweep each minute, {transitions} transitions",
            millions * transitions * prices.TRANSITION,
        ),
        ("alarms", f"{alarms}, which read {metrics} metrics", metrics * prices.ALARM_METRIC),
        (
            "SQS",
            f"{prices.POLLERS} pollers of Lambda's on each of {queues} queues",
            polls_bill(queues),
        ),
        ("KMS", "the key of the alert topic", keys * prices.KEY),
        ("secrets", f"{secrets}", secrets * prices.SECRET),
        (
            "metrics",
            "sweeps that are done",
            prices.METRIC,
        ),
        ("dashboard", f"{dashboards}", dashboards * prices.DASHBOARD),
        (
            "schedule",
            "one invocation for each sweep; Find is not traced",
            millions * prices.SCHEDULE,
        ),
        ("Lambda", f"{prices.SWEEP_SECONDS:g} s for each sweep, 256 MB", millions * invocation),
        ("DynamoDB reads", f"{reads:g} units for each sweep", millions * reads * prices.READ_UNIT),
    )


def open_page_bill() -> Bill:
    """The overview, visible and refreshed each minute of a month."""
    millions = prices.MONTH_SECONDS / 60 / 10**6
    requests, seconds = prices.PAGE_REQUESTS, prices.PAGE_REQUEST_SECONDS
    invocation = prices.INVOCATION + seconds * 0.5 * prices.GIGABYTE_SECOND
    most = f"{MAX_COUNT:,} entries of each of 4 counts, {MAX_REVIEWS} jobs in review"
    reads = f"{prices.PAGE_READ_UNITS} units at most: {most}"
    logs = prices.PAGE_LOG_KILOBYTES * 1000 / prices.GIGABYTE * prices.LOG_GIGABYTE * 10**6
    return _bill(
        (
            "CloudWatch",
            f"{len(Series)} metrics, in one GetMetricData",
            millions * len(Series) * prices.METRIC_QUERY,
        ),
        (
            "DynamoDB reads",
            reads,
            millions * prices.PAGE_READ_UNITS * prices.READ_UNIT,
        ),
        ("SQS", f"{prices.PAGE_QUEUES} queues", millions * prices.PAGE_QUEUES * prices.SQS_REQUEST),
        ("API Gateway", f"{requests} requests", millions * requests * prices.API_REQUEST),
        ("Lambda", f"{requests} times {seconds:g} s, 512 MB", millions * requests * invocation),
        ("CloudWatch Logs", f"{prices.PAGE_LOG_KILOBYTES} kB at most", millions * logs),
    )


def compare_bills(oncely: Bill, other: Bill) -> tuple[CostLine, ...]:
    ours = {line.what: line.dollars for line in oncely}
    theirs = {line.what: line.dollars for line in other}
    return tuple(
        CostLine(what=what, oncely=ours.get(what, 0), powertools=theirs.get(what, 0))
        for what in dict.fromkeys((*ours, *theirs))
    )


def history_puts(job: JobUsage, inventory: Inventory) -> float:
    mapping = inventory.history
    if mapping is None:
        return 0
    changes = _count_changes(job)
    waiting = (
        HISTORY_RATE * changes / SHARDS_OF_A_STREAM * mapping["MaximumBatchingWindowInSeconds"]
    )
    batch: float = min(mapping["BatchSize"], _PAYLOAD_RECORDS, max(1, waiting))
    return changes / batch


def _count_changes(job: JobUsage) -> int:
    """Successful writes to the job's row. Each is a record of the stream."""
    return sum(
        any(table == "jobs" for table, _ in call.writes) and not call.failed
        for call in (*job.run.calls, *job.publish.calls)
    )
