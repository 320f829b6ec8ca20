"""What a million jobs cost: counted units, requests and bytes, times list prices."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from oncely.reconcile import find_due_work as find_due
from oncely_cdk.stages import Stage
from tests.bench import prices
from tests.bench.counting import JobUsage, UsageCounts
from tests.bench.figures import CostLine
from tests.bench.inventory import Inventory
from tests.bench.log_bytes import LogBytes

WORKER_GIGABYTES: Final[float] = Stage.model_fields["worker_memory_mb"].default / 1024

# Jobs that a sweep of the schedule takes at most. None: as many as the provider's rate allows.
MAX_JOBS_PER_SWEEP: Final[int | None] = getattr(find_due, "MOST", None)
# A new table has this many partitions, and its stream as many shards.
SHARDS_OF_A_STREAM: Final = 4
# The rate at which the archive's batches are counted.
HISTORY_RATE: Final = 100  # jobs a second


@dataclass(frozen=True, kw_only=True)
class BatchTiming:
    """Assumed: how many messages Lambda delivers at once, and how long they take together."""

    batch: int
    seconds: float


# The smallest job waits 200 ms for its provider, ten side by side (docs/benchmarks.md).
SMALLEST: Final = BatchTiming(batch=10, seconds=0.25)
BATCH_TIMINGS: Final = {
    "natural": SMALLEST,
    "smallest keyed": SMALLEST,
    "payment.charge": BatchTiming(batch=5, seconds=1.5),
    "receipt.send": BatchTiming(batch=5, seconds=0.3),
    "sync.contact": BatchTiming(batch=5, seconds=0.5),
    "sync.import": BatchTiming(batch=1, seconds=2.0),
    "sync.push": BatchTiming(batch=5, seconds=0.6),
}
# Powertools works the same ten one after the other, and writes its row twice (counted by
# `make bench`): once to claim, once with the result. Its rows expire after an hour.
POWERTOOLS: Final = BatchTiming(batch=10, seconds=2.08)
POWERTOOLS_WRITES: Final = 2


@dataclass(frozen=True, kw_only=True)
class BillLine:
    """One line of a bill: what it is for, how it comes about, and dollars."""

    what: str
    how: str
    dollars: float


def bill_total(lines: Iterable[BillLine]) -> float:
    return sum(line.dollars for line in lines)


def million_jobs_bill(job: JobUsage, log: LogBytes, inventory: Inventory) -> tuple[BillLine, ...]:
    pace = BATCH_TIMINGS[job.name]
    requests = job.requests
    log_bytes = log.per_job(pace.batch)
    puts, gets = requests["archive.keep"], requests["archive.find"]
    lines = (
        BillLine(
            what="DynamoDB writes",
            how=f"{job.write_units:g} units",
            dollars=job.write_units * prices.WRITE_UNIT,
        ),
        BillLine(
            what="DynamoDB reads",
            how=f"{job.read_units:g} units",
            dollars=job.read_units * prices.READ_UNIT,
        ),
        BillLine(
            what="S3 requests",
            how=f"{puts} written, {gets} looked for",
            dollars=puts * prices.S3_PUT + gets * prices.S3_GET,
        ),
        *_history_lines(job, inventory),
        BillLine(
            what="EventBridge",
            how=f"{requests['bus.publish']} event",
            dollars=requests["bus.publish"] * prices.EVENT,
        ),
        BillLine(
            what="SQS",
            how=f"1 sent, and 2 requests for each batch of {pace.batch}",
            dollars=prices.SQS_REQUEST * (1 + 2 / pace.batch),
        ),
        BillLine(
            what="Lambda, worker",
            how=f"{pace.seconds:g} s for a batch of {pace.batch}, {1024 * WORKER_GIGABYTES:g} MB",
            dollars=_worker_cost(pace),
        ),
        BillLine(
            what="Lambda, publisher",
            how=f"{prices.PUBLISH_SECONDS:g} s" if job.publish.calls else "nothing is owed",
            dollars=_publisher_cost() if job.publish.calls else 0,
        ),
        BillLine(
            what="CloudWatch Logs",
            how=f"{log_bytes / 1000:.2f} kB",
            dollars=log_bytes / 1000 * prices.LOG_GIGABYTE,
        ),
        BillLine(
            what="X-Ray",
            how=f"{prices.TRACED:.0%} of the invocations",
            dollars=prices.TRACED * prices.TRACE / pace.batch,
        ),
    )
    return tuple(line for line in lines if line.dollars)


def storage_bill(job: JobUsage, inventory: Inventory) -> tuple[BillLine, ...]:
    months = job.retention_days / prices.DAYS_IN_A_MONTH
    gigabytes = job.stored_bytes * 10**6 / prices.GIGABYTE
    kept = f"{gigabytes:.2f} GB for {job.retention_days:g} days"
    return (
        BillLine(
            what="DynamoDB storage",
            how=kept,
            dollars=gigabytes * months * prices.STORED_GIGABYTE,
        ),
        BillLine(
            what="point-in-time recovery",
            how=kept,
            dollars=gigabytes * months * prices.BACKUP_GIGABYTE,
        ),
        *_history_storage_lines(job, inventory),
    )


def infrequent_access_delta(job: JobUsage) -> float:
    """What the table class Standard-IA changes: dearer units, cheaper storage."""
    months = job.retention_days / prices.DAYS_IN_A_MONTH
    gigabytes = job.stored_bytes * 10**6 / prices.GIGABYTE
    return (
        job.write_units * (prices.WRITE_UNIT_IA - prices.WRITE_UNIT)
        + job.read_units * (prices.READ_UNIT_IA - prices.READ_UNIT)
        - gigabytes * months * (prices.STORED_GIGABYTE - prices.STORED_GIGABYTE_IA)
    )


def resolution_bill(job: JobUsage, inventory: Inventory) -> tuple[BillLine, ...]:
    unknown = job.unknown
    assert unknown is not None
    writes = unknown.write_units - job.write_units
    reads = unknown.read_units - job.read_units
    gets = unknown.requests.get("archive.find", 0) - job.requests["archive.find"]
    jobs, threads = inventory.jobs_of_an_iteration, inventory.threads_of_an_iteration
    transitions = inventory.transitions_of_an_iteration / jobs
    seconds = prices.RESOLVE_SECONDS / threads
    lines = (
        BillLine(
            what="Step Functions",
            how=f"{transitions:.2g} transitions",
            dollars=transitions * prices.TRANSITION,
        ),
        BillLine(
            what="DynamoDB",
            how=f"{writes:g} write and {reads:g} read units",
            dollars=writes * prices.WRITE_UNIT + reads * prices.READ_UNIT,
        ),
        BillLine(
            what="Lambda, resolver",
            how=f"{seconds:.2g} s",
            dollars=prices.INVOCATION / jobs + seconds * WORKER_GIGABYTES * prices.GIGABYTE_SECOND,
        ),
        BillLine(what="S3 requests", how=f"{gets} looked for", dollars=gets * prices.S3_GET),
    )
    return tuple(line for line in lines if line.dollars)


def idle_month_bill(counts: UsageCounts, inventory: Inventory) -> tuple[BillLine, ...]:
    sweeps = inventory.sweeps_each_month
    polls = inventory.polled_queues * prices.POLLERS * prices.MONTH_SECONDS / prices.POLL_SECONDS
    alarms = len(inventory.of_type("AWS::CloudWatch::Alarm"))
    keys = len(inventory.of_type("AWS::KMS::Key"))
    secrets = len(inventory.of_type("AWS::SecretsManager::Secret"))
    dashboards = len(inventory.of_type("AWS::CloudWatch::Dashboard"))
    seconds = prices.SWEEP_SECONDS * prices.SWEEP_GIGABYTES
    lines = (
        BillLine(
            what="Step Functions",
            how=f"a sweep each minute, {inventory.idle_transitions} transitions",
            dollars=sweeps * inventory.idle_transitions * prices.TRANSITION / 10**6,
        ),
        BillLine(
            what="alarms",
            how=f"{alarms}, which read {inventory.alarm_metrics} metrics",
            dollars=inventory.alarm_metrics * prices.ALARM_METRIC,
        ),
        BillLine(
            what="SQS",
            how=f"{prices.POLLERS} pollers of Lambda's on each of {inventory.polled_queues} queues",
            dollars=polls * prices.SQS_REQUEST / 10**6,
        ),
        BillLine(
            what="KMS",
            how="the key of the alert topic",
            dollars=keys * prices.KEY,
        ),
        BillLine(what="secrets", how=f"{secrets}", dollars=secrets * prices.SECRET),
        BillLine(
            what="metrics",
            how="the age of the oldest unresolved job, and sweeps that are done",
            dollars=2 * prices.METRIC,
        ),
        BillLine(what="dashboard", how=f"{dashboards}", dollars=dashboards * prices.DASHBOARD),
        BillLine(
            what="schedule",
            how="one invocation for each sweep; Find is not traced",
            dollars=sweeps * prices.SCHEDULE / 10**6,
        ),
        BillLine(
            what="Lambda",
            how=f"{prices.SWEEP_SECONDS:g} s for each sweep, 256 MB",
            dollars=sweeps * (prices.INVOCATION + seconds * prices.GIGABYTE_SECOND) / 10**6,
        ),
        BillLine(
            what="DynamoDB reads",
            how=f"{counts.idle_sweep.read_units:g} units for each sweep",
            dollars=sweeps * counts.idle_sweep.read_units * prices.READ_UNIT / 10**6,
        ),
    )
    return tuple(line for line in lines if line.dollars)


def powertools_bill() -> tuple[BillLine, ...]:
    pace = POWERTOOLS
    platform = prices.PLATFORM_BYTES + prices.PLATFORM_LINES * prices.LINE_BYTES
    log_bytes = platform / pace.batch
    return (
        BillLine(
            what="DynamoDB writes",
            how=f"{POWERTOOLS_WRITES} units",
            dollars=POWERTOOLS_WRITES * prices.WRITE_UNIT,
        ),
        BillLine(
            what="SQS",
            how=f"1 sent, and 2 requests for each batch of {pace.batch}",
            dollars=prices.SQS_REQUEST * (1 + 2 / pace.batch),
        ),
        BillLine(
            what="Lambda, worker",
            how=f"{pace.seconds:g} s for a batch of {pace.batch}, one after the other",
            dollars=_worker_cost(pace),
        ),
        BillLine(
            what="CloudWatch Logs",
            how=f"{log_bytes / 1000:.2f} kB, Lambda's own lines",
            dollars=log_bytes / 1000 * prices.LOG_GIGABYTE,
        ),
        BillLine(
            what="X-Ray",
            how=f"{prices.TRACED:.0%} of the invocations",
            dollars=prices.TRACED * prices.TRACE / pace.batch,
        ),
    )


def compare_bills(oncely: Iterable[BillLine], other: Iterable[BillLine]) -> tuple[CostLine, ...]:
    ours = {line.what: line.dollars for line in oncely}
    theirs = {line.what: line.dollars for line in other}
    return tuple(
        CostLine(what=what, oncely=ours.get(what, 0), powertools=theirs.get(what, 0))
        for what in dict.fromkeys((*ours, *theirs))
    )


def _worker_cost(pace: BatchTiming) -> float:
    seconds = pace.seconds * WORKER_GIGABYTES * prices.GIGABYTE_SECOND
    return (prices.INVOCATION + seconds) / pace.batch


def _publisher_cost() -> float:
    seconds = prices.PUBLISH_SECONDS * prices.PUBLISH_GIGABYTES * prices.GIGABYTE_SECOND
    return prices.INVOCATION / prices.PUBLISH_BATCH + seconds


def history_puts(job: JobUsage, inventory: Inventory) -> float:
    mapping = inventory.history
    if mapping is None:
        return 0
    changes = _count_changes(job)
    window: float = mapping["MaximumBatchingWindowInSeconds"]
    waiting = HISTORY_RATE * changes / SHARDS_OF_A_STREAM * window
    batch: float = min(mapping["BatchSize"], _PAYLOAD_RECORDS, max(1, waiting))
    return changes / batch


# Lambda hands a function 6 MB at most: a record with both images is about 4 kB as JSON.
_PAYLOAD_RECORDS: Final = 1500


def _history_lines(job: JobUsage, inventory: Inventory) -> tuple[BillLine, ...]:
    """Changes that the stream brings to the archive in batches; Lambda reads a stream for free."""
    puts = history_puts(job, inventory)
    invocation = prices.INVOCATION + prices.GIGABYTE_SECOND * prices.PUBLISH_GIGABYTES
    return (
        BillLine(
            what="history",
            how=f"{_count_changes(job)} changes, {puts:.4f} objects at {HISTORY_RATE} jobs/s",
            dollars=puts * (prices.S3_PUT + invocation),
        ),
    )


def _history_storage_lines(job: JobUsage, inventory: Inventory) -> tuple[BillLine, ...]:
    if inventory.history is None:
        return ()
    stored = _count_changes(job) * prices.HISTORY_LINE_BYTES / 1000  # gigabytes for a million jobs
    months = job.retention_days / prices.DAYS_IN_A_MONTH
    return (
        BillLine(
            what="history in S3",
            how=f"{stored:.2f} GB for {job.retention_days:g} days",
            dollars=stored * months * prices.S3_GIGABYTE,
        ),
    )


def _count_changes(job: JobUsage) -> int:
    """Writes to the job's row that went through: each is a record of the stream."""
    calls = (*job.run.calls, *job.publish.calls)
    return sum(
        any(table == "jobs" for table, _ in call.writes) and not call.failed for call in calls
    )
