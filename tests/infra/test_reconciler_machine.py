"""The reconciler's state machine is bounded, complete, and calls only functions."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from oncely_cdk.reconciler_machine import definition
from tests.infra.assembly import Assembly

MACHINE = definition(max_concurrency=8)


def every_state(machine: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, state in machine["States"].items():
        yield name, state
        if "ItemProcessor" in state:
            yield from every_state(state["ItemProcessor"])


def test_every_target_exists() -> None:
    """The local engine accepts a machine that names a missing state."""
    page = deepcopy(MACHINE)
    group = page["States"]["Process groups"].pop("ItemProcessor")
    for machine in (page, group):
        targets = re.findall(r'"(?:StartAt|Next|Default)": "([^"]+)"', json.dumps(machine))
        assert set(targets) <= set(machine["States"])


def test_tasks_only_invoke_functions_and_retry_lambda_errors() -> None:
    tasks = {name: one for name, one in every_state(MACHINE) if one["Type"] == "Task"}

    assert set(tasks) == {"Find", "Resolve", "One at a time", "Finish"}
    for task in tasks.values():
        assert task["Resource"] == "arn:aws:states:::lambda:invoke"
        (retry,) = task["Retry"]
        assert all(error.startswith("Lambda.") for error in retry["ErrorEquals"])


def test_group_is_one_state_and_page_three_more() -> None:
    """State transitions cost money: 4 for 25 jobs, 43 for a page of 1,000."""
    group = MACHINE["States"]["Process groups"]["ItemProcessor"]

    assert list(MACHINE["States"]) == ["Find", "Process groups", "Finish"]
    assert group["States"][group["StartAt"]]["End"]


def test_failed_group_is_retried_job_by_job_then_reported() -> None:
    each = MACHINE["States"]["Process groups"]
    states = each["ItemProcessor"]["States"]
    (first,), (second,) = states["Resolve"]["Catch"], states["One at a time"]["Catch"]

    assert each["MaxConcurrency"] == 8
    assert (first["ErrorEquals"], first["Next"]) == (["States.ALL"], "One at a time")
    assert states["One at a time"]["Parameters"]["Payload"]["at_once"] == 1
    assert (second["ErrorEquals"], second["Next"]) == (["States.ALL"], "Resolve failed")
    failed = states["Resolve failed"]["Parameters"]
    assert failed == {"items.$": "$.items", "error.$": "$.error.Error"}


def test_no_state_fails_execution() -> None:
    assert "Fail" not in {state["Type"] for _, state in every_state(MACHINE)}


def test_template_holds_definition_and_functions(prod: Assembly) -> None:
    properties = prod.only("AWS::StepFunctions::StateMachine")
    functions = {
        name: prod.path(value["Fn::GetAtt"][0])
        for name, value in properties["DefinitionSubstitutions"].items()
    }

    assert json.loads(properties["DefinitionString"]) == MACHINE
    assert functions == {
        "FindArn": "Reconciler/Find/Function",
        "ResolveArn": "Reconciler/Resolve/Function",
        "FinishArn": "Reconciler/Finish/Function",
    }
    assert properties["StateMachineType"] == "STANDARD"


def test_schedule_invokes_find_each_minute(prod: Assembly) -> None:
    schedules = prod.properties("AWS::Scheduler::Schedule").items()
    (properties,) = (one for path, one in schedules if path.startswith("Reconciler/"))

    assert properties["ScheduleExpression"] == "rate(1 minute)"
    assert properties["State"] == "ENABLED"
    assert json.loads(properties["Target"]["Input"]) == {}
    assert properties["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
    target = properties["Target"]["Arn"]["Fn::GetAtt"][0]
    assert prod.path(target) == "Reconciler/Find/Function"


def test_functions_start_state_machine_by_its_name(prod: Assembly) -> None:
    name = prod.only("AWS::StepFunctions::StateMachine")["StateMachineName"]

    assert name == "Oncely-prod-reconciler"
    for function in ("Reconciler/Find", "Reconciler/Finish"):
        properties = prod.functions[function].properties
        arn = json.dumps(properties["Environment"]["Variables"]["RECONCILER_ARN"])
        assert arn.endswith(f':stateMachine:{name}"]]}}')
