"""The recipe for recurring jobs: a schedule whose message contains the period in its key."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from oncely.core.keys import job_key
from tests.docs.pages import REPOSITORY
from tests.e2e.deployed_stack import StackClient, wait_for

PERIOD = "2026-12-07T03:00:00Z"
KEY = job_key("sync.import", "hubspot", PERIOD)


def documented_schedule() -> dict[str, Any]:
    page = (REPOSITORY / "docs" / "send-jobs.md").read_text(encoding="utf-8")
    found = re.search(r"```json\n(.*?ScheduleExpression.*?)```", page, re.DOTALL)
    assert found is not None
    schedule: dict[str, Any] = json.loads(found[1])
    return schedule


def test_schedule_that_fires_twice_for_one_period_runs_job_once(deployment: StackClient) -> None:
    documented, scheduler = documented_schedule(), deployment.client("scheduler")
    queue = deployment.outputs["SyncQueueUrl"]
    arn = deployment.client("sqs").get_queue_attributes(
        QueueUrl=queue, AttributeNames=["QueueArn"]
    )["Attributes"]["QueueArn"]
    # The engine does not replace the names of the scheduler.
    body = documented["Target"]["Input"].replace("<aws.scheduler.scheduled-time>", PERIOD)
    for name in ("nightly-import", "nightly-import-again"):
        soon = datetime.now(tz=UTC) + timedelta(seconds=5)
        scheduler.create_schedule(
            **{
                **documented,
                "Name": name,
                "ScheduleExpression": f"at({soon:%Y-%m-%dT%H:%M:%S})",
                "ActionAfterCompletion": "DELETE",
                "Target": {**documented["Target"], "Arn": arn, "Input": body},
            }
        )
        wait_for(
            lambda name=name: (
                name not in {one["Name"] for one in scheduler.list_schedules()["Schedules"]}
            ),  # type: ignore[misc]  # bound now
            f"{name} fires",
        )
        # The second message would otherwise wait for the lease of the first.
        deployment.wait_for_job(KEY, "finished")

    def duplicate_is_logged() -> bool:
        log = deployment.engine.log.read_text(errors="replace")
        return any(KEY in line and "duplicate" in line for line in log.splitlines())

    wait_for(duplicate_is_logged, "the second message is a duplicate")
    job = deployment.job(KEY)
    assert job is not None
    assert (job["status"], job["fence"]) == ("finished", "1")
