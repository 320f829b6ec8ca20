"""What `make bench` measures: requests, CPU and batches compared with Powertools, sweeps, packages.

Candidates alternate, so that other load on the machine affects both sides of a ratio.
"""

import json
import tempfile
import time
import uuid
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from botocore import xform_name

from oncely_cdk import OncelySettings
from oncely_cdk.layers import ENGINE, ON_LAMBDA, layers_for
from tests.bench.candidates import BATCH_CONCURRENCY, Candidate, new_bodies
from tests.bench.figures import BatchTime, CallCounts, CpuTime, PackageSize, SweepCost
from tests.infra.assembly import Assembly
from tests.integration.ping import ping_message
from tests.support.bulk_rows import add_archived_jobs, add_due_jobs, count_items_read
from tests.support.dynamo import CallRecorder, DynamoFixture

LATENCY: Final = 0.2  # seconds of the provider that each job of a batch waits for
_BATCH: Final = 10
_CPU_ROUNDS: Final = 60
_BATCH_ROUNDS: Final = 12
_DUE_JOBS: Final = 10
_TABLE_SIZES: Final = (1_000, 10_000, 100_000)

Bars: TypeAlias = list[tuple[float, float]]
CallSequence: TypeAlias = list[Callable[[], object]]


def count_dynamodb_calls(candidate: Candidate) -> CallCounts:
    recorder = CallRecorder()
    recorder.watch(candidate.clients[0])

    def requests(body: str) -> int:
        recorder.reset()
        candidate.work([body])
        return len(recorder.attempts)

    [body] = new_bodies(1)
    return CallCounts(
        new=requests(body),
        duplicate=requests(body),
        bad=requests(json.dumps(ping_message("seven"))),
    )


class RecordedCall(NamedTuple):
    """One AWS call of a job, to repeat for another key without the engine."""

    client: Any
    method: str
    params: dict[str, Any]

    def for_key(self, key: str) -> Callable[[], object]:
        match self.params:
            case {"Key": attributes}:
                params = {**self.params, "Key": {next(iter(attributes)): {"S": key}}}
            case {"Item": item}:
                params = {**self.params, "Item": {**item, "id": {"S": key}}}
            case _:
                raise ValueError(f"no key in {self.params}")
        method = getattr(self.client, self.method)
        return lambda: method(**params)


def _record_calls(candidate: Candidate) -> list[RecordedCall]:
    calls: list[RecordedCall] = []

    def keep(client: Any) -> Callable[..., None]:  # noqa: ANN401  # any client of the SDK's
        return lambda params, model, **_: calls.append(
            RecordedCall(client, xform_name(model.name), dict(params))
        )

    for client in candidate.clients:
        client.meta.events.register("provide-client-params.*", keep(client), unique_id="bench")
    candidate.work(new_bodies(1))
    for client in candidate.clients:
        client.meta.events.unregister("provide-client-params.*", unique_id="bench")
    return calls


def _bare_jobs(calls: Sequence[RecordedCall]) -> list[CallSequence]:
    keys = [uuid.uuid4().hex for _ in range(_BATCH)]
    return [[call.for_key(key) for call in calls] for key in keys]


def _run_job(job: CallSequence) -> None:
    for call in job:
        call()


def measure_cpu(*candidates: Candidate) -> list[CpuTime]:
    """Return the CPU time of a job, and the median of its ratios to the bare AWS calls."""
    calls = [_record_calls(candidate) for candidate in candidates]
    rounds = [list(map(_cpu_round, candidates, calls)) for _ in range(_CPU_ROUNDS)]
    return [
        CpuTime(
            ratio=median(whole / bare for bare, whole in times),
            milliseconds=1e3 * median(whole for _, whole in times),
            bare_milliseconds=1e3 * median(bare for bare, _ in times),
            aws_calls=len(made),
        )
        for times, made in zip(zip(*rounds, strict=True), calls, strict=True)
    ]


def _cpu_round(candidate: Candidate, calls: Sequence[RecordedCall]) -> tuple[float, float]:
    """Seconds for one job: the bare calls, and the whole."""
    jobs, bodies = _bare_jobs(calls), new_bodies(_BATCH)
    began = time.process_time()
    for job in jobs:
        _run_job(job)
    between = time.process_time()
    candidate.work(bodies)
    ended = time.process_time()
    return (between - began) / _BATCH, (ended - between) / _BATCH


def cpu_ratio(candidate: Candidate, other: Candidate) -> float:
    ratios = []
    for _ in range(_CPU_ROUNDS):
        began = time.process_time()
        candidate.work(new_bodies(_BATCH))
        between = time.process_time()
        other.work(new_bodies(_BATCH))
        ratios.append((between - began) / (time.process_time() - between))
    return median(ratios)


def measure_batches(
    oncely: Candidate, powertools: Candidate
) -> tuple[BatchTime, BatchTime, BatchTime]:
    """Measure both, and the bare calls of the first. Returns the best of each.

    Other load on the machine only makes a batch slower.
    """
    works = (_candidate_work(oncely), _candidate_work(powertools), _bare_work(oncely))
    for work in works:
        work()  # the first batch opens connections and builds classes
    rounds = [[_time_work(work) for work in works] for _ in range(_BATCH_ROUNDS)]
    first, second, bare = (
        min(runs, key=lambda run: run.seconds) for runs in zip(*rounds, strict=True)
    )
    return first, second, bare


def _time_work(work: Callable[[], Bars]) -> BatchTime:
    began = time.perf_counter()
    bars = work()
    seconds = time.perf_counter() - began
    return BatchTime(
        seconds=seconds,
        over_latency=seconds / LATENCY,
        bars=tuple((start - began, end - began) for start, end in sorted(bars)),
    )


def _candidate_work(candidate: Candidate) -> Callable[[], Bars]:
    def work() -> Bars:
        candidate.bars.clear()
        candidate.work(new_bodies(_BATCH), latency=LATENCY)
        return list(candidate.bars)

    return work


def _bare_work(candidate: Candidate) -> Callable[[], Bars]:
    """The same calls and the same wait without the engine: the best that this machine can do."""
    calls = _record_calls(candidate)

    def work() -> Bars:
        bars: Bars = []

        def wait() -> None:
            began = time.perf_counter()
            time.sleep(LATENCY)
            bars.append((began, time.perf_counter()))

        with ThreadPoolExecutor(BATCH_CONCURRENCY) as pool:
            list(pool.map(_run_job, ([*job[:-1], wait, job[-1]] for job in _bare_jobs(calls))))
        return bars

    return work


def measure_sweeps(url: str) -> tuple[SweepCost, ...]:
    """Items that the reconciler reads to find ten due jobs, as the table around them grows."""
    dynamo = DynamoFixture(url)
    add_due_jobs(dynamo, _DUE_JOBS)
    found = []
    for before, size in pairwise((0, *_TABLE_SIZES)):
        add_archived_jobs(dynamo, before, size)
        items, read = count_items_read(dynamo)
        found.append(SweepCost(rows=size, found=items, read=read))
    dynamo.close()
    return tuple(found)


def measure_packages() -> tuple[PackageSize, ...]:
    """What each function ships: its code as Lambda gets it, zipped, and the layers under it."""
    layers = {
        name: layer.build_if_missing().stat().st_size
        for name, layer in layers_for(ON_LAMBDA).items()
    }
    with tempfile.TemporaryDirectory() as folder:
        assembly = Assembly.from_folder(
            Path(folder) / "prod", OncelySettings(name="prod", alert_email="ops@example.com")
        )
        layers[ENGINE] = _zipped(assembly.engine, Path(folder) / "engine.zip")
        return tuple(
            PackageSize(
                function=function.name,
                code=_zipped(function.folder, Path(folder) / "code.zip") // 1000,
                layers=sum(layers[name] for name in function.layers) // 1000,
            )
            for function in assembly.functions.values()
        )


def _zipped(folder: Path, archive: Path) -> int:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(folder.rglob("*")):
            packed.write(file, file.relative_to(folder))
    return archive.stat().st_size
