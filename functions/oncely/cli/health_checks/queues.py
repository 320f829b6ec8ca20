"""Checks that queues redeliver, keep and dead-letter messages without losing any."""

import json
from collections.abc import Iterator
from typing import Final

from oncely.cli.health_checks.deployed import AwsDescription, DeployedStack
from oncely.plugins.health import Finding, failed, passed, warned

# AWS's advice: a batch may be throttled and retried before its messages become visible again.
VISIBILITY_FACTOR: Final = 6
_DEPLOY: Final = "deploy the stack again: the queue was changed by hand"


def check_queues(deployed: DeployedStack) -> Iterator[Finding]:
    """Check each job queue, the dead letter queue and the rejects queue."""
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
    yield _check_rejects(deployed.connection.app.rejected_messages.count_today())


def _check_rejects(number: int) -> Finding:
    if not number:
        return passed("rejected messages", "none in the last 24 hours")
    return warned(
        "rejected messages",
        f"{number} in the last 24 hours",
        "see why with `oncely rejects list`, and fix the producer",
    )


def _check_queue(
    deployed: DeployedStack, name: str, queue: AwsDescription, last: AwsDescription | None
) -> Finding:
    check = f"queue {name}"
    if faults := [*_visibility(deployed, queue), *_dead_letters(queue, last)]:
        return failed(check, "; ".join(faults), _DEPLOY)
    waiting = int(queue.get("ApproximateNumberOfMessages", 0))
    return passed(check, f"settings are correct, {waiting} messages waiting")


def _visibility(deployed: DeployedStack, queue: AwsDescription) -> Iterator[str]:
    mapping = deployed.mapping_for(queue["QueueArn"])
    function = None if mapping is None else deployed.function_for(mapping)
    if function is None:
        return
    visible, timeout = int(queue["VisibilityTimeout"]), int(function["Timeout"])
    if visible < VISIBILITY_FACTOR * timeout:
        yield (
            f"visibility timeout is {visible} s, but a function timeout of {timeout} s needs at "
            f"least {VISIBILITY_FACTOR * timeout} s"
        )


def _dead_letters(queue: AwsDescription, last: AwsDescription | None) -> Iterator[str]:
    policy = json.loads(queue.get("RedrivePolicy") or "{}")
    if last is None or policy.get("deadLetterTargetArn") != last["QueueArn"]:
        yield "its redrive policy does not point to the stack's dead letter queue"
        return
    kept, kept_after = int(queue["MessageRetentionPeriod"]), int(last["MessageRetentionPeriod"])
    # SQS counts a dead letter's age from its first send.
    if kept_after <= kept:
        yield (
            f"the dead letter queue keeps messages {_days(kept_after)} from the first send, and "
            f"this queue already keeps them {_days(kept)}"
        )


def _check_last_queue(name: str, queue: AwsDescription) -> Finding:
    if waiting := int(queue.get("ApproximateNumberOfMessages", 0)):
        return warned(
            name,
            f"{waiting} messages wait for their function",
            "check the function's log; see docs/operations.md#queue-backlog",
        )
    return passed(name, "empty")


def _days(seconds: int) -> str:
    return f"{seconds / 86_400:g} days"
