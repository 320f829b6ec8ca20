"""Functions that the engine ends: at their timeout, and each time they are called."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from infra.local.account import Account
from infra.local.deploy import bootstrap, deploy
from infra.local.engine import running_engine
from infra.local.logs import LogStream
from infra.local.redeploy import update_code
from infra.local.sandbox import FaultKind, ProviderSandbox
from infra.local.tally import timeouts_in
from infra.stages import Stage
from oncely.contracts import CONTRACTS
from tests.e2e import scenarios
from tests.e2e.deployment import Deployment, eventually

pytestmark = pytest.mark.timeout(600)

STAGE: Final = Stage.of({"stage": "local"}, CONTRACTS)
QUEUE: Final = "PaymentsQueueUrl"
# After the lease of the job: the function's timeout, a request's and the clocks' difference.
AFTER_THE_LEASE: Final = STAGE.worker_timeout + 15
DIES: Final = "import os\ndef handler(event, context):\n    os._exit(1)\n"


@pytest.fixture(scope="module")
def stack(
    assembly: Path, sandbox: ProviderSandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """An account of its own: here messages come back at other times than elsewhere."""
    log = tmp_path_factory.mktemp("dying") / "engine.log"
    with running_engine(log) as engine:
        bootstrap(engine.url, assembly)
        deploy(engine.url, assembly, providers=sandbox.url)
        yield Deployment(engine, sandbox, assembly)


def shown_again_after(stack: Deployment, seconds: int) -> None:
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


def test_a_provider_that_never_ends_its_answer_costs_the_worker_and_not_the_charge(
    stack: Deployment,
) -> None:
    key = "payment.charge:order_hangs"
    shown_again_after(stack, AFTER_THE_LEASE)
    scenarios.order(stack, "hangs")
    stack.sandbox.faults.add(
        FaultKind.ACCEPT_THEN_TRICKLE, path="*/confirm", key_contains="order_hangs", seconds=300
    )

    stack.send(QUEUE, scenarios.charge("hangs"))
    eventually(
        lambda: timeouts_in(stack.engine.log) or None, "the engine ended the worker at its timeout"
    )
    assert scenarios.charges(stack, "hangs") == 1
    eventually(lambda: deliveries(stack, key) or None, "the message came back")
    stack.reconcile(key=key)

    stack.job_when(key, "finished")
    assert deliveries(stack, key)[0] == 2
    assert scenarios.charges(stack, "hangs") == 1


def test_a_message_whose_worker_always_dies_ends_as_a_dead_letter_and_its_job_is_known(
    stack: Deployment,
) -> None:
    key = "payment.charge:order_deadly"
    shown_again_after(stack, 1)
    scenarios.order(stack, "deadly")
    kill_every_worker(stack)
    before = failed_batches(stack)

    stack.send(QUEUE, scenarios.charge("deadly"))
    job = stack.job_when(key, "ready")

    assert failed_batches(stack) - before == STAGE.max_receives
    assert "stranded_since" in job
    assert scenarios.charges(stack, "deadly") == 0

    update_code(Account(stack.engine.url))
    stack.backdate(key, "due_at")
    stack.reconcile(key=key)
    stack.job_when(key, "finished")
    assert scenarios.charges(stack, "deadly") == 1
