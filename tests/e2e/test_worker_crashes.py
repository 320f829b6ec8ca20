"""Workers that die: killed during a call, and each time they are invoked."""

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from oncely.testing.sandbox import FaultKind
from oncely_cdk.stages import OncelySettings
from oncely_local.logs import LogStream
from oncely_local.processes import kill_worker, list_workers
from oncely_local.redeploy import publish
from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient, wait_for

STAGE: Final = OncelySettings(name="local")
QUEUE: Final = "PaymentsQueueUrl"
MAX_RECEIVES: Final = 5  # fewer than the stack's, so that a crash loop ends within the test
CRASHING_HANDLER: Final = "import os\ndef handler(event, context):\n    os._exit(1)\n"


@pytest.fixture
def stack(deployment: StackClient) -> Iterator[StackClient]:
    set_redelivery(deployment, seconds=1, receives=MAX_RECEIVES)
    yield deployment
    set_redelivery(
        deployment, seconds=STAGE.visibility_timeout_seconds, receives=STAGE.max_receive_count
    )


def set_redelivery(stack: StackClient, *, seconds: int, receives: int) -> None:
    sqs = stack.client("sqs")
    found = sqs.get_queue_attributes(
        QueueUrl=stack.outputs[QUEUE], AttributeNames=["RedrivePolicy"]
    )
    redrive = {**json.loads(found["Attributes"]["RedrivePolicy"]), "maxReceiveCount": receives}
    attributes = {"VisibilityTimeout": str(seconds), "RedrivePolicy": json.dumps(redrive)}
    sqs.set_queue_attributes(QueueUrl=stack.outputs[QUEUE], Attributes=attributes)


def receive_counts(stack: StackClient, key: str) -> list[int]:
    return [
        int(one.fields["receives"])
        for one in LogStream(stack.account).poll()
        if one.job_key == key and "receives" in one.fields
    ]


def count_failed_batches(stack: StackClient) -> int:
    return stack.engine.log.read_text(errors="replace").count("failed processing SQS batch")


@contextmanager
def crashing_worker(stack: StackClient) -> Iterator[None]:
    functions = stack.client("lambda")
    listed = functions.list_functions()["Functions"]
    (worker,) = [one for one in listed if "PaymentsWorker" in one["FunctionName"]]
    name, code = worker["FunctionName"], io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("crash.py", CRASHING_HANDLER)
    functions.update_function_code(FunctionName=name, ZipFile=code.getvalue())
    functions.update_function_configuration(FunctionName=name, Handler="crash.handler")
    publish(functions, name)
    try:
        yield
    finally:
        functions.update_function_configuration(FunctionName=name, Handler=worker["Handler"])
        publish(functions, name)


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
    before = count_failed_batches(stack)

    with crashing_worker(stack):
        stack.send(QUEUE, scenarios.charge_message("deadly"))
        job = stack.wait_for_job(key, "ready")

    assert count_failed_batches(stack) - before == MAX_RECEIVES
    assert job["waits_for"] == "dead_letter"
    assert scenarios.count_charges(stack, "deadly") == 0

    stack.backdate(key, "due_at")
    stack.reconcile(key=key)
    stack.wait_for_job(key, "finished")
    assert scenarios.count_charges(stack, "deadly") == 1
