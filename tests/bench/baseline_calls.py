"""The AWS calls of a job without the engine around them: recorded once, made again for new keys."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore import xform_name

from tests.bench.candidates import Candidate, RecordedCall, new_bodies

CallSequence = list[Callable[[], object]]


def record_calls(contender: Candidate) -> list[RecordedCall]:
    calls: list[RecordedCall] = []

    def keep(client: Any) -> Callable[..., None]:  # noqa: ANN401  # any client of the SDK's
        return lambda params, model, **_: calls.append(
            RecordedCall(client, xform_name(model.name), dict(params))
        )

    for client in contender.clients:
        client.meta.events.register("provide-client-params.*", keep(client), unique_id="bench")
    contender.work(new_bodies(1))
    for client in contender.clients:
        client.meta.events.unregister("provide-client-params.*", unique_id="bench")
    return calls


def baseline_jobs(calls: Sequence[RecordedCall], names: Sequence[str]) -> list[CallSequence]:
    return [[_call(one, name) for one in calls] for name in names]


def run_jobs(jobs: Sequence[CallSequence], *, at_once: int = 1) -> None:
    if at_once == 1:
        for job in jobs:
            _run_job(job)
        return
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(_run_job, jobs))


def _run_job(job: CallSequence) -> None:
    for call in job:
        call()


def _call(one: RecordedCall, name: str) -> Callable[[], object]:
    method = getattr(one.client, one.method)
    asked = _with_key(one.params, name)

    def call() -> None:
        method(**asked)

    return call


def _with_key(asked: dict[str, Any], name: str) -> dict[str, Any]:
    match asked:
        case {"Key": key}:
            return {**asked, "Key": {next(iter(key)): {"S": name}}}
        case {"Item": item}:
            return {**asked, "Item": {**item, "id": {"S": name}}}
        case _:
            raise ValueError(f"no key in {asked}")
