"""Workers that die: killed during a call, and each time they are invoked."""

import io
import zipfile
from collections.abc import Iterator
from typing import Final

import pytest

from infra.local.account import Account
from infra.local.logs import LogStream
from infra.local.processes import kill, workers_of
from infra.local.redeploy import update_code
from infra.local.sandbox import FaultKind
from infra.stages import Stage
from oncely.contracts import CONTRACTS
from tests.e2e import scenarios
from tests.e2e.deployment import Deployment, eventually

pytestmark = pytest.mark.timeout(600)

STAGE: Final = Stage.of({"stage": "local"}, CONTRACTS)
QUEUE: Final = "PaymentsQueueUrl"
DIES: Final = "import os\ndef handler(event, context):\n    os._exit(1)\n"


@pytest.fixture
def stack(deployment: Deployment) -> Iterator[Deployment]:
    """The deployed stack, with messages visible again after a second."""
    visible_again_after(deployment, 1)
    yield deployment
    visible_again_after(deployment, STAGE.visibility_timeout_seconds)


def visible_again_after(stack: Deployment, seconds: int) -> None:
    stack.client("sqs").set_queue_attributes(
        QueueUrl=stack.outputs[QUEUE], Attributes={"VisibilityTimeout": str(seconds)}
    )


def deliveries(stack: Deployment, key: str) -> list[int]:
    """How often the queue had delivered the message, each time a worker answered for it."""
    lines = LogStream(stack.account).new()
    return [
        int(one.fields["receives"])
        for one in lines
        if one.job_key == key and "receives" in one.fields
    ]


def failed_batches(stack: Deployment) -> int:
    """How often a worker was given messages and did not live to answer."""
    return stack.engine.log.read_text(errors="replace").count("failed processing SQS batch")


def kill_every_worker(stack: Deployment) -> None:
    """Deploy a worker that dies whatever it is given."""
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("work_queue/handler.py", DIES)
    functions = stack.client("lambda")
    for function in functions.list_functions()["Functions"]:
        if "PaymentsWorker" in function["FunctionName"]:
            name = function["FunctionName"]
            functions.update_function_code(FunctionName=name, ZipFile=code.getvalue())


def test_worker_killed_during_call_leaves_one_charge(stack: Deployment) -> None:
    key = "payment.charge:order_killed"
    scenarios.order(stack, "killed")
    stack.sandbox.faults.add(
        FaultKind.ACCEPT_THEN_TRICKLE, path="*/confirm", key_contains="order_killed", seconds=300
    )

    stack.send(QUEUE, scenarios.charge("killed"))
    eventually(lambda: scenarios.charges(stack, "killed") or None, "Stripe has charged")
    for worker in workers_of(stack.engine.pid):
        kill(worker)
    eventually(lambda: deliveries(stack, key) or None, "the message came back")
    stack.backdate(key, "lease_until")
    stack.reconcile(key=key)

    stack.job_when(key, "finished")
    assert deliveries(stack, key)[0] > 1
    assert scenarios.charges(stack, "killed") == 1


def test_crash_loop_dead_letters_message_and_keeps_job(
    stack: Deployment,
) -> None:
    key = "payment.charge:order_deadly"
    scenarios.order(stack, "deadly")
    kill_every_worker(stack)
    before = failed_batches(stack)

    try:
        stack.send(QUEUE, scenarios.charge("deadly"))
        job = stack.job_when(key, "ready")
    finally:
        update_code(Account(stack.engine.url))

    assert failed_batches(stack) - before == STAGE.max_receive_count
    assert "stranded_since" in job
    assert scenarios.charges(stack, "deadly") == 0

    stack.backdate(key, "due_at")
    stack.reconcile(key=key)
    stack.job_when(key, "finished")
    assert scenarios.charges(stack, "deadly") == 1
