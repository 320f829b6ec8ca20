"""Whether a message can wait, come back and be given up on without being lost."""

import json
from collections.abc import Iterator
from typing import Final

from oncely.cli.checkup.deployed import AwsDescription, DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed, warned

# Lambda's own advice: a batch may be tried again and throttled before its messages come back.
VISIBILITY_FACTOR: Final = 6
_DEPLOY: Final = "deploy the stack again; someone changed the queue by hand"


def check_queues(deployed: DeployedStack) -> Iterator[Finding]:
    """Each queue that carries jobs, and the two at the end of the line."""
    dead_letters = deployed.connection.outputs.get("DeadLetterQueueUrl")
    last = None if dead_letters is None else deployed.queue(dead_letters)
    for name in deployed.queue_names:
        if url := deployed.queue_url(name):
            yield _check_queue(deployed, name, deployed.queue(url), last)
    for name, url in (
        ("dead letters", dead_letters),
        ("rejects", deployed.connection.outputs.get("RejectsQueueUrl")),
    ):
        if url is not None:
            yield _check_last_queue(name, deployed.queue(url))


def _check_queue(
    deployed: DeployedStack, name: str, queue: AwsDescription, last: AwsDescription | None
) -> Finding:
    check = f"queue {name}"
    faults = [*_visibility(deployed, queue), *_dead_letters(queue, last)]
    if faults:
        return failed(check, "; ".join(faults), _DEPLOY)
    waiting = int(queue.get("ApproximateNumberOfMessages", 0))
    return passed(check, f"visibility, retention and dead letters fit; {waiting} waiting")


def _visibility(deployed: DeployedStack, queue: AwsDescription) -> Iterator[str]:
    mapping = deployed.mapping_for(queue["QueueArn"])
    function = None if mapping is None else deployed.function_for(mapping)
    if function is None:
        return
    visible, timeout = int(queue["VisibilityTimeout"]), int(function["Timeout"])
    if visible < VISIBILITY_FACTOR * timeout:
        yield (
            f"a message comes back after {visible} s while its function may run {timeout} s: "
            f"at least {VISIBILITY_FACTOR * timeout} s are needed"
        )


def _dead_letters(queue: AwsDescription, last: AwsDescription | None) -> Iterator[str]:
    policy = json.loads(queue.get("RedrivePolicy") or "{}")
    if last is None or policy.get("deadLetterTargetArn") != last["QueueArn"]:
        yield "what a worker gives up on does not go to the dead letters"
        return
    kept, kept_after = int(queue["MessageRetentionPeriod"]), int(last["MessageRetentionPeriod"])
    # SQS counts a dead letter's age from its first send.
    if kept_after <= kept:
        yield (
            f"dead letters are kept {_days(kept_after)} from the first send, and this queue "
            f"keeps {_days(kept)} already"
        )


def _check_last_queue(name: str, queue: AwsDescription) -> Finding:
    waiting = int(queue.get("ApproximateNumberOfMessages", 0))
    if waiting:
        return warned(
            name,
            f"{waiting} messages wait for their function",
            "look at its log; see docs/operations.md#queue-backlog",
        )
    return passed(name, "empty")


def _days(seconds: int) -> str:
    return f"{seconds / 86_400:g} days"
