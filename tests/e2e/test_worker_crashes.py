"""Workers that die: killed during a call, and each time they are invoked."""

import io
import zipfile
from collections.abc import Iterator
from typing import Final

import pytest

from oncely.jobs import CONTRACTS
from oncely.testing.sandbox import FaultKind
from oncely_cdk.stages import Stage
from oncely_local.account import LocalAccount
from oncely_local.logs import LogStream
from oncely_local.processes import kill_worker, list_workers
from oncely_local.redeploy import update_function_code
from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient, wait_for

STAGE: Final = Stage.from_context({"stage": "local"}, CONTRACTS)
QUEUE: Final = "PaymentsQueueUrl"
CRASHING_HANDLER: Final = "import os\ndef handler(event, context):\n    os._exit(1)\n"


@pytest.fixture
def stack(deployment: StackClient) -> Iterator[StackClient]:
    set_visibility_timeout(deployment, 1)
    yield deployment
    set_visibility_timeout(deployment, STAGE.visibility_timeout_seconds)


def set_visibility_timeout(stack: StackClient, seconds: int) -> None:
    stack.client("sqs").set_queue_attributes(
        QueueUrl=stack.outputs[QUEUE], Attributes={"VisibilityTimeout": str(seconds)}
    )


def receive_counts(stack: StackClient, key: str) -> list[int]:
    return [
        int(one.fields["receives"])
        for one in LogStream(stack.account).poll()
        if one.job_key == key and "receives" in one.fields
    ]


def count_failed_batches(stack: StackClient) -> int:
    return stack.engine.log.read_text(errors="replace").count("failed processing SQS batch")


def kill_every_worker(stack: StackClient) -> None:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("oncely/handlers/process_queue.py", CRASHING_HANDLER)
    functions = stack.client("lambda")
    for function in functions.list_functions()["Functions"]:
        if "PaymentsWorker" in function["FunctionName"]:
            name = function["FunctionName"]
            functions.update_function_code(FunctionName=name, ZipFile=code.getvalue())


def test_worker_killed_during_call_leaves_one_charge(stack: StackClient) -> None:
    key = "payment.charge:order_killed"
    scenarios.put_order(stack, "killed")
    stack.sandbox.faults.add(
        FaultKind.ACCEPT_THEN_TRICKLE, path="*/confirm", key_contains="order_killed", seconds=300
    )

    stack.send(QUEUE, scenarios.charge_message("killed"))
    wait_for(lambda: scenarios.count_charges(stack, "killed"), "Stripe has charged")
    for worker in list_workers(stack.engine.pid):
        kill_worker(worker)
    wait_for(lambda: receive_counts(stack, key), "the message came back")
    stack.backdate(key, "lease_until")
    stack.reconcile(key=key)

    stack.wait_for_job(key, "finished")
    assert receive_counts(stack, key)[0] > 1
    assert scenarios.count_charges(stack, "killed") == 1


def test_crash_loop_dead_letters_message_and_keeps_job(stack: StackClient) -> None:
    key = "payment.charge:order_deadly"
    scenarios.put_order(stack, "deadly")
    kill_every_worker(stack)
    before = count_failed_batches(stack)

    try:
        stack.send(QUEUE, scenarios.charge_message("deadly"))
        job = stack.wait_for_job(key, "ready")
    finally:
        update_function_code(LocalAccount(stack.engine.url))

    assert count_failed_batches(stack) - before == STAGE.max_receive_count
    assert "stranded_since" in job
    assert scenarios.count_charges(stack, "deadly") == 0

    stack.backdate(key, "due_at")
    stack.reconcile(key=key)
    stack.wait_for_job(key, "finished")
    assert scenarios.count_charges(stack, "deadly") == 1
