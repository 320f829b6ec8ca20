"""A deployment that fails late, with jobs in flight: it is rolled back, and no job is lost."""

import json
import threading
from pathlib import Path

import pytest

from oncely_local.account import STACK_NAME
from oncely_local.deploy import DeployError, deploy
from oncely_local.project import local_project
from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient, synthesize

WORKER_MEMORY_MB = 640
INTERVAL_SECONDS = 2.0


def live_versions(stack: StackClient) -> dict[str, tuple[str, int]]:
    """The version that each mapping's alias calls, and its memory."""
    functions, found = stack.client("lambda"), {}
    for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
        arn = mapping["FunctionArn"]
        live = functions.get_function_configuration(FunctionName=arn)
        found[arn] = (live["Version"], live["MemorySize"])
    return found


def fail_late(folder: Path) -> None:
    """Add a resource that fails after every alias was moved to its new version."""
    file = folder / f"{STACK_NAME}.template.json"
    template = json.loads(file.read_text(encoding="utf-8"))
    resources = template["Resources"]
    (check,) = (one for one in resources.values() if one["Type"] == "Custom::OncelyIdentity")
    resources["LateFailure"] = {
        "Type": "Custom::OncelyIdentity",
        "Properties": {**check["Properties"], "Expected": {"deployment": "another"}},
        "DependsOn": [id_ for id_, one in resources.items() if one["Type"] == "AWS::Lambda::Alias"],
    }
    file.write_text(json.dumps(template), encoding="utf-8")


@pytest.mark.slow
def test_failed_deployment_is_rolled_back_and_loses_no_job(
    deployment: StackClient, tmp_path: Path
) -> None:
    stack, sent, ended = deployment, list[str](), threading.Event()
    before = live_versions(stack)
    assert all(arn.endswith(":live") for arn in before)
    settings = local_project().settings
    changed = settings.model_copy(update={"worker_memory_mb": WORKER_MEMORY_MB})
    synthesize(changed, tmp_path)
    fail_late(tmp_path)

    def keep_sending() -> None:
        while not ended.wait(INTERVAL_SECONDS):
            order = f"late_{len(sent)}"
            scenarios.put_order(stack, order)
            stack.send("PaymentsQueueUrl", scenarios.charge_message(order))
            sent.append(order)

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        with pytest.raises(DeployError, match=r"deployment is \w+, but"):
            deploy(stack.engine.url, tmp_path, providers=stack.sandbox.url)
    finally:
        ended.set()
        sender.join()

    assert live_versions(stack) == before
    assert sent
    for order in sent:
        stack.wait_for_job(f"payment.charge:order_{order}", "finished")
        assert scenarios.count_charges(stack, order) == 1
