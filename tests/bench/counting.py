"""Counts what each job consumes: units by table and index, S3, queue and event requests."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from oncely.core.job_row import JobRow
from oncely.core.keys import job_key
from oncely.core.row_items import Attributes
from oncely.operate.own_tables import JOBS, TTL_ATTRIBUTE
from tests.bench.capacity import item_bytes, stored_bytes
from tests.bench.metering import Meter, MeteredCall, UnitsByIndex, total_units
from tests.bench.shipped_jobs import JobSample, new_world, samples, seed_order
from tests.support.bulk_rows import add_due_jobs, count_items_read
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.table_schemas import TABLE_SCHEMAS

PORTS: Final = ("bus", "outbox", "alerts")  # of priced services
DUE_JOBS: Final = 10
PAYMENT_COUNT: Final = 24  # payments: enough to hit every shard of an index


@dataclass(frozen=True, kw_only=True)
class MeteredStep:
    calls: tuple[MeteredCall, ...]
    requests: Mapping[str, int]  # such as outbox.send, by port and method

    @property
    def writes(self) -> UnitsByIndex:
        return total_units(list(self.calls), lambda call: call.writes)

    @property
    def write_units(self) -> float:
        return sum(self.writes.values())

    @property
    def read_units(self) -> float:
        return sum(total_units(list(self.calls), lambda call: call.reads).values())


@dataclass(frozen=True, kw_only=True)
class JobUsage:
    name: str
    run: MeteredStep  # the worker
    publish: MeteredStep  # what the stream starts after the job has ended
    duplicate: MeteredStep
    contradicting: MeteredStep | None  # the same key with other values
    unknown: MeteredStep | None  # a run without an answer, its resolution and publication
    row_bytes: int  # the ended row
    stored_bytes: int  # the ended row and its entries in the indexes, as storage is billed
    retention_days: float  # until the row expires
    max_row_bytes: int  # of the row, at any time

    @property
    def writes(self) -> UnitsByIndex:
        return self.run.writes + self.publish.writes

    @property
    def write_units(self) -> float:
        return sum(self.writes.values())

    @property
    def read_units(self) -> float:
        return self.run.read_units + self.publish.read_units

    @property
    def requests(self) -> Counter[str]:
        return Counter(self.run.requests) + Counter(self.publish.requests)


@dataclass(frozen=True, kw_only=True)
class UsageCounts:
    jobs: tuple[JobUsage, ...]
    idle_sweep: MeteredStep
    sweep: MeteredStep  # of DUE_JOBS jobs that are due
    # Units of PAYMENT_COUNT payments, by table, index and partition.
    hot_partitions: Counter[tuple[str, str, str]]
    calls: tuple[MeteredCall, ...] = field(default=(), repr=False)

    def job(self, name: str) -> JobUsage:
        return next(one for one in self.jobs if one.name == name)


class _CountingPort:
    def __init__(self, name: str, port: object, requests: Counter[str]) -> None:
        self._name, self._port, self._requests = name, port, requests

    def __getattr__(self, method: str) -> Any:  # noqa: ANN401  # whatever the port has
        found = getattr(self._port, method)
        if not callable(found):
            return found

        def counted(*args: object, **named: object) -> object:
            self._requests[f"{self._name}.{method}"] += 1
            return found(*args, **named)

        return counted


@dataclass
class _MeteredStack:
    sample: JobSample
    meter: Meter
    requests: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        dynamo = self.meter.dynamo
        self.world: InMemoryStack = new_world(
            store=dynamo.store(), rows=dynamo.rows(), contracts=self.sample.contracts()
        )
        for name in PORTS:
            watched = _CountingPort(name, getattr(self.world, name), self.requests)
            setattr(self.world, name, watched)
        self.sample.seed(self.world)

    def step(self, act: Callable[[], object]) -> MeteredStep:
        before = Counter(self.requests)
        with self.meter.meter_calls() as calls:
            act()
        return MeteredStep(calls=tuple(calls), requests=self.requests - before)

    def run(self, message: Mapping[str, object] | None = None) -> MeteredStep:
        body = json.dumps(message or dict(self.sample.message))
        return self.step(lambda: self.world.run(body))

    def publish(self) -> MeteredStep:
        return self.step(self._publish)

    def resolve(self) -> None:
        job = self.read_job()
        assert job.due_at is not None, f"{job.job_key} is {job.status} and not due"
        self.world.clock.time = max(self.world.clock.time, job.due_at)
        self.world.reconcile(self.sample.key)
        assert self.read_job().ended, "the sweep did not resolve the job"

    def read_job(self) -> JobRow:
        dynamo = self.meter.dynamo
        job = dynamo.store(dynamo.admin).get(self.sample.key)
        assert job is not None
        return job

    def kept_days(self, row: Attributes) -> float:
        seconds = float(row[TTL_ATTRIBUTE]["N"]) - self.world.clock.time.timestamp()
        return round(seconds / 86_400)

    def _publish(self) -> None:
        # The stream's filter: ended rows that are still due.
        job = self.read_job()
        assert job.ended, f"{job.job_key} is {job.status}"
        if job.due_at is not None:
            self.world.publisher().publish(self.sample.key)


def count_usage(url: str, *, engine_counts: bool = False) -> UsageCounts:
    meters: list[Meter] = []

    def meter() -> Meter:
        meters.append(Meter(DynamoFixture(url), engine_reports_units=engine_counts))
        return meters[-1]

    jobs = tuple(_count_job(sample, meter) for sample in samples())
    idle_sweep, sweep = _sweeps(meter())
    hot = _partitions(meter())
    for one in meters:
        one.dynamo.close()
    calls = tuple(call for one in meters for call in one.calls)
    return UsageCounts(
        jobs=jobs, idle_sweep=idle_sweep, sweep=sweep, hot_partitions=hot, calls=calls
    )


def _count_job(sample: JobSample, new_meter: Callable[[], Meter]) -> JobUsage:
    place = _MeteredStack(sample, new_meter())
    run, publish = place.run(), place.publish()
    row = place.meter.dynamo.row(sample.key)
    assert row is not None
    return JobUsage(
        name=sample.name,
        run=run,
        publish=publish,
        duplicate=place.run(),
        contradicting=place.run(sample.conflicting_message) if sample.conflicting_message else None,
        unknown=_unknown(sample, new_meter),
        row_bytes=item_bytes(row),
        stored_bytes=stored_bytes(TABLE_SCHEMAS[JOBS], row),
        retention_days=place.kept_days(row),
        max_row_bytes=place.meter.max_item_bytes[JOBS],
    )


def _unknown(sample: JobSample, new_meter: Callable[[], Meter]) -> MeteredStep | None:
    if sample.make_ambiguous is None:
        return None
    place = _MeteredStack(sample, new_meter())
    sample.make_ambiguous(place.world)

    def live() -> None:
        place.run()
        place.resolve()
        place.publish()

    return place.step(live)


def _sweeps(meter: Meter) -> tuple[MeteredStep, MeteredStep]:
    """A sweep that finds nothing, and one that finds jobs, without resolving them."""

    def sweep() -> MeteredStep:
        with meter.meter_calls() as calls:
            count_items_read(meter.dynamo)
        return MeteredStep(calls=tuple(calls), requests={})

    idle = sweep()
    add_due_jobs(meter.dynamo, DUE_JOBS)
    return idle, sweep()


def _partitions(meter: Meter) -> Counter[tuple[str, str, str]]:
    dynamo = meter.dynamo
    world = new_world(store=dynamo.store(), rows=dynamo.rows())
    for number in range(PAYMENT_COUNT):
        order_id = f"ord_{number:010d}"
        seed_order(world, order_id, customer_id=f"cus_{number:010d}")
        world.run(charge_message(order_id))
        world.publisher().publish(job_key("payment.charge", order_id, prefix="order_"))
    return Counter(meter.hot_partitions)
