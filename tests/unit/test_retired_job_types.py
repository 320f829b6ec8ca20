"""A job type with open jobs is not removed by accident, and a rollback is never stopped."""

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Status
from oncely.handlers.set_up_table import is_rolling_back
from oncely.operate.set_up_table import OpenJobsError, refuse_open_jobs
from tests.support.in_memory_stack import InMemoryStack, charge_message


@pytest.fixture
def world() -> InMemoryStack:
    found = InMemoryStack()
    found.add_order()
    found.enqueuer().enqueue(charge_message())
    return found


def remove(world: InMemoryStack, *removed: str) -> None:
    ports = world.app().ports
    refuse_open_jobs(removed, due_index=ports.due_index, job_index=ports.job_index)


def test_type_with_a_job_in_progress_is_refused(world: InMemoryStack) -> None:
    with pytest.raises(OpenJobsError, match=r"payment.charge is no longer .* name it in retired_"):
        remove(world, "payment.charge")


def test_other_types_and_no_type_pass(world: InMemoryStack) -> None:
    remove(world, "receipt.send")
    remove(world)


def test_type_whose_jobs_have_ended_is_removed(world: InMemoryStack) -> None:
    (key,) = world.store.jobs
    world.run(charge_message())
    with pytest.raises(OpenJobsError):
        remove(world, "payment.charge")  # its follow-up is not sent yet
    world.clock.advance(hours=1)
    world.reconcile(key)
    assert world.job(key).status is Status.FINISHED

    remove(world, "payment.charge")


def test_type_with_a_job_in_review_is_refused(world: InMemoryStack) -> None:
    world.run_to_review()
    (row,) = world.store.jobs.values()
    assert isinstance(row, JobRow)
    assert row.status is Status.NEEDS_REVIEW
    # Its alert is sent, so nothing is due.
    world.store.jobs[row.job_key] = replace(row, due_at=None)

    with pytest.raises(OpenJobsError, match=r"payment\.charge:order_\w+ is still open"):
        remove(world, "payment.charge")


class Stacks:
    def __init__(self, status: str | None) -> None:
        self.status = status

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        if self.status is None:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": self.status}]}


@pytest.mark.parametrize(
    ("status", "rolls_back"),
    [
        ("UPDATE_IN_PROGRESS", False),
        ("UPDATE_ROLLBACK_IN_PROGRESS", True),
        ("CREATE_IN_PROGRESS", False),
        (None, False),
    ],
)
def test_rollback_is_recognized(status: str | None, rolls_back: bool) -> None:  # noqa: FBT001  # expected
    client: Any = Stacks(status)
    assert is_rolling_back(client, "stack") is rolls_back
