"""Counts what each job consumes: units by table and index, S3, queue and event requests."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from infra.table_plans import JOBS, PLANS, TTL
from oncely.adapters.job_rows import Attributes
from oncely.domain.jobs import Job
from oncely.domain.keys import job_key
from tests.bench.capacity import TABLE, item_bytes, stored_bytes
from tests.bench.metering import Bill, Call, Meter, total
from tests.bench.shipped_jobs import Sample, new_world, order, samples
from tests.support.dynamo import Dynamo
from tests.support.many_rows import fill_with_due, items_read
from tests.support.world import World, charge

# The ports that stand for a priced service; one that the engine does not have counts nothing.
PORTS: Final = ("archive", "bus", "outbox", "alerts")
DUE_JOBS: Final = 10
MANY: Final = 24  # payments: enough to meet every shard of an index


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a job's life, and what it consumed."""

    calls: tuple[Call, ...]
    requests: Mapping[str, int]  # such as archive.find, by port and method

    @property
    def writes(self) -> Bill:
        """Write units by table and index."""
        return total(list(self.calls), lambda call: call.writes)

    @property
    def reads(self) -> Bill:
        """Read units by table and index."""
        return total(list(self.calls), lambda call: call.reads)

    @property
    def write_units(self) -> float:
        """Write units of all tables and indexes together."""
        return sum(self.writes.values())

    @property
    def read_units(self) -> float:
        """Read units of all tables and indexes together."""
        return sum(self.reads.values())


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One job type from its message to the last write, and what can happen beside that."""

    name: str
    run: Step  # the worker
    publish: Step  # what the stream starts after the end
    duplicate: Step
    contradicting: Step | None  # the same key with other values
    unknown: Step | None  # a run without an answer, its resolution and publication
    row_bytes: int  # the ended row
    stored_bytes: int  # the ended row and its entries in the indexes, as storage is billed
    kept_days: float  # until the row expires
    largest_bytes: int  # of the row, at any time

    @property
    def write_units(self) -> float:
        """Of the whole life of a job that goes well."""
        return self.run.write_units + self.publish.write_units

    @property
    def read_units(self) -> float:
        """Of the whole life of a job that goes well."""
        return self.run.read_units + self.publish.read_units

    @property
    def requests(self) -> Counter[str]:
        """Requests at the other services, by port and method."""
        return Counter(self.run.requests) + Counter(self.publish.requests)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Everything that was counted."""

    jobs: tuple[Counted, ...]
    idle_sweep: Step
    sweep: Step  # of DUE_JOBS jobs that are due
    hot: Counter[tuple[str, str, str]]  # units of MANY payments, by table, index and partition
    calls: tuple[Call, ...] = field(default=(), repr=False)

    def job(self, name: str) -> Counted:
        """One by its name."""
        return next(one for one in self.jobs if one.name == name)


class _Watched:
    """A port that counts the calls of its methods."""

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
class _Place:
    """A world over metered tables, fresh for each job type."""

    sample: Sample
    meter: Meter
    requests: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        dynamo = self.meter.dynamo
        self.world: World = new_world(
            store=dynamo.store(), rows=dynamo.rows(), contracts=self.sample.contracts()
        )
        for name in PORTS:
            if hasattr(self.world, name):
                watched = _Watched(name, getattr(self.world, name), self.requests)
                setattr(self.world, name, watched)
        self.sample.arrange(self.world)

    def step(self, act: Callable[[], object]) -> Step:
        before = Counter(self.requests)
        with self.meter.metered() as calls:
            act()
        return Step(calls=tuple(calls), requests=self.requests - before)

    def run(self, message: Mapping[str, object] | None = None) -> Step:
        body = json.dumps(message or dict(self.sample.message))
        return self.step(lambda: self.world.run(body))

    def publish(self) -> Step:
        return self.step(self._publish)

    def resolve(self) -> None:
        """What a sweep does about the job once it is due."""
        job = self.look()
        assert job.due_at is not None, f"{job.job_key} is {job.status} and not due"
        self.world.clock.time = max(self.world.clock.time, job.due_at)
        self.world.reconcile(self.sample.key)
        assert self.look().ended, "the sweep did not resolve the job"

    def look(self) -> Job:
        """The job as it is, without being metered."""
        dynamo = self.meter.dynamo
        job = dynamo.store(dynamo.admin).get(self.sample.key)
        assert job is not None
        return job

    def kept_days(self, row: Attributes) -> float:
        """How long the row will stay in the table."""
        seconds = float(row[TTL]["N"]) - self.world.clock.time.timestamp()
        return round(seconds / 86_400)

    def _publish(self) -> None:
        # The stream's filter: ended rows that are still due.
        job = self.look()
        assert job.ended, f"{job.job_key} is {job.status}"
        if job.due_at is not None:
            self.world.publisher().publish(self.sample.key)


def count(url: str, *, engine_counts: bool = False) -> Counts:
    """Count all jobs on the DynamoDB at this address."""
    meters: list[Meter] = []

    def meter() -> Meter:
        meters.append(Meter(Dynamo(url), engine_counts=engine_counts))
        return meters[-1]

    jobs = tuple(_count_job(sample, meter) for sample in samples())
    idle_sweep, sweep = _sweeps(meter())
    hot = _partitions(meter())
    for one in meters:
        one.dynamo.close()
    calls = tuple(call for one in meters for call in one.calls)
    return Counts(jobs=jobs, idle_sweep=idle_sweep, sweep=sweep, hot=hot, calls=calls)


def _count_job(sample: Sample, new_meter: Callable[[], Meter]) -> Counted:
    place = _Place(sample, new_meter())
    run, publish = place.run(), place.publish()
    row = place.meter.dynamo.row(sample.key)
    assert row is not None
    return Counted(
        name=sample.name,
        run=run,
        publish=publish,
        duplicate=place.run(),
        contradicting=place.run(sample.contradicting) if sample.contradicting else None,
        unknown=_unknown(sample, new_meter),
        row_bytes=item_bytes(row),
        stored_bytes=stored_bytes(PLANS[JOBS], row),
        kept_days=place.kept_days(row),
        largest_bytes=place.meter.largest[JOBS],
    )


def _unknown(sample: Sample, new_meter: Callable[[], Meter]) -> Step | None:
    if sample.lose_the_answer is None:
        return None
    place = _Place(sample, new_meter())
    sample.lose_the_answer(place.world)

    def live() -> None:
        place.run()
        place.resolve()
        place.publish()

    return place.step(live)


def _sweeps(meter: Meter) -> tuple[Step, Step]:
    """A sweep that finds nothing, and one that finds some jobs; what it resolves comes on top."""

    def sweep() -> Step:
        with meter.metered() as calls:
            items_read(meter.dynamo)
        return Step(calls=tuple(calls), requests={})

    idle = sweep()
    fill_with_due(meter.dynamo, DUE_JOBS)
    return idle, sweep()


def _partitions(meter: Meter) -> Counter[tuple[str, str, str]]:
    """Many payments, and which partitions of the indexes they write to."""
    dynamo = meter.dynamo
    world = new_world(store=dynamo.store(), rows=dynamo.rows())
    for number in range(MANY):
        order_id = f"ord_{number:010d}"
        order(world, order_id, customer_id=f"cus_{number:010d}")
        world.run(charge(order_id))
        world.publisher().publish(job_key("payment.charge", order_id, prefix="order_"))
    return Counter(meter.hot)


def by_place(bill: Bill) -> str:
    """Units as people read them: `jobs 3, due 4`."""
    named = {
        (f"{table}.{index}" if index != TABLE else table): n for (table, index), n in bill.items()
    }
    return ", ".join(f"{name} {units:g}" for name, units in sorted(named.items()))
