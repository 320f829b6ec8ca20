"""The page and the command show no Python value, no capitalized key and no line twice."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from oncely.contracts.registry import JobRegistry
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.operate.job_view import describe_event
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack

REGISTRY = JobRegistry(SHIPPED_JOBS)
# `None` and similar values as words, and the representation of an object.
PYTHON = re.compile(r"\b(None|True|False|NoneType|nan|datetime)\b|<\w+[ .]\w+|\w+\(\w+=")
TYPES = [contract.job_type for contract in REGISTRY]
ERRORS = (None, "order 9999 does not exist", "payment.charge:order_1 has other values")


def sparse_job(job_type: str, status: Status, error: str | None) -> JobRow:
    """A row with as few fields as a restored or edited one may have."""
    message = REGISTRY.contract(job_type).example_message()
    return JobRow(
        job_key=JobKey(f"{job_type}:order_1"),
        job_type=job_type,
        status=status,
        message=message,
        created_at=START,
        updated_at=START,
        last_error=error,
    )


def busy_job(job: JobRow) -> JobRow:
    """The same with every kind of entry on its timeline, each without a reason."""
    for number, event in enumerate(Event):
        at = START + timedelta(seconds=number)
        if job.status.allows(event):
            status = job.status
            job = replace(job.apply(event, now=at, actor="operator:ada", reason=""), status=status)
    return job


def texts(value: object) -> Iterator[str]:
    """Every text that is shown, without the row's own message and result."""
    match value:
        case str():
            yield value
        case list():
            for inner in value:
                yield from texts(inner)
        case dict():
            for name, inner in value.items():
                if name not in {"message", "result", "contract"}:
                    yield from texts(inner)
        case _:
            return


def assert_plain(shown: Mapping[str, Any]) -> None:
    found = [text for text in texts(dict(shown)) if PYTHON.search(text)]
    assert found == []
    headline = str(shown["headline"])
    assert not re.match(r"[A-Z]\w+\.\w+:", headline), "a job key is never capitalized"
    assert shown["next_step"] not in {headline, f"{headline}."}
    assert ".." not in headline.replace("...", "")


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("job_type", TYPES)
def test_texts_of_a_sparse_row_are_plain(job_type: str, status: Status) -> None:
    world = InMemoryStack()
    for error in ERRORS:
        job = sparse_job(job_type, status, error)
        for one in (job, busy_job(job)):
            assert_plain(world.inspector().view(one).to_json())


@pytest.mark.parametrize("status", Status)
def test_command_prints_plain_lines_once(status: Status) -> None:
    world = InMemoryStack()
    job = busy_job(sparse_job("payment.charge", status, ERRORS[1]))
    world.store.jobs[job.job_key] = job
    for words in (("show", job.job_key), ("find", job.job_key), ("list", "--status", status)):
        shown = run_cli(*words, connection=FakeStackConnection(world)).stdout
        lines = [line.strip() for line in shown.splitlines() if line.strip()]
        assert [line for line in lines if PYTHON.search(line)] == []
        repeated = [one for one, other in pairwise(lines) if one == other]
        assert repeated == []


def test_every_event_has_words() -> None:
    assert all(describe_event(event) != event for event in Event)
    assert not any(describe_event(event)[0].isupper() for event in Event)


def test_json_of_a_view_can_be_written() -> None:
    world = InMemoryStack()
    view = world.inspector().view(sparse_job("payment.charge", Status.READY, None))
    assert "None" not in json.dumps(view.to_json())
