"""The AWS calls of a job without the engine around them: recorded once, made again for new keys."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore import xform_name

from tests.bench.contenders import Contender, Recorded, fresh

Job = list[Callable[[], object]]


def recorded(contender: Contender) -> list[Recorded]:
    """The calls that one new job makes, with all that they say."""
    calls: list[Recorded] = []

    def keep(client: Any) -> Callable[..., None]:  # noqa: ANN401  # any client of the SDK's
        return lambda params, model, **_: calls.append(
            Recorded(client, xform_name(model.name), dict(params))
        )

    for client in contender.clients:
        client.meta.events.register("provide-client-params.*", keep(client), unique_id="bench")
    contender.work(fresh(1))
    for client in contender.clients:
        client.meta.events.unregister("provide-client-params.*", unique_id="bench")
    return calls


def bare_jobs(calls: Sequence[Recorded], names: Sequence[str]) -> list[Job]:
    """The same calls once for each name, with nothing left to prepare."""
    return [[_call(one, name) for one in calls] for name in names]


def make(jobs: Sequence[Job], *, at_once: int = 1) -> None:
    """Make the calls of each job in their order, so many jobs at once."""
    if at_once == 1:
        for job in jobs:
            _make(job)
        return
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(_make, jobs))


def _make(job: Job) -> None:
    for call in job:
        call()


def _call(one: Recorded, name: str) -> Callable[[], object]:
    method = getattr(one.client, one.method)
    asked = _for(one.asked, name)

    def call() -> None:
        method(**asked)

    return call


def _for(asked: dict[str, Any], name: str) -> dict[str, Any]:
    """The same question about another key."""
    match asked:
        case {"Key": key}:
            return {**asked, "Key": {next(iter(key)): {"S": name}}}
        case {"Item": item}:
            return {**asked, "Item": {**item, "id": {"S": name}}}
        case _:
            raise ValueError(f"no key in {asked}")
