"""The reconciler's state machine: bounded, total, and only ever calling functions."""

import json
from collections.abc import Iterator
from typing import Any

from infra.reconciler_machine import definition, missing_targets
from tests.infra.assembly import Assembly


def every_state(machine: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, state in machine["States"].items():
        yield name, state
        if "ItemProcessor" in state:
            yield from every_state(state["ItemProcessor"])


def test_every_target_is_there() -> None:
    assert list(missing_targets(definition(groups_at_once=8))) == []


def test_a_target_that_is_not_there_is_found() -> None:
    machine = definition(groups_at_once=8)
    machine["States"]["Find"]["Next"] = "Nowhere"
    states = machine["States"]["Each group"]["ItemProcessor"]["States"]
    states["Resolve"]["Catch"][0]["Next"] = "Never"

    assert set(missing_targets(machine)) == {"Nowhere", "Never"}


def test_it_only_calls_functions_and_tries_again_what_lambda_itself_failed() -> None:
    tasks = {
        name: one
        for name, one in every_state(definition(groups_at_once=8))
        if one["Type"] == "Task"
    }

    assert set(tasks) == {"Find", "Resolve", "One at a time", "Finish"}
    for task in tasks.values():
        assert task["Resource"] == "arn:aws:states:::lambda:invoke"
        (retry,) = task["Retry"]
        assert all(error.startswith("Lambda.") for error in retry["ErrorEquals"])


def test_group_is_one_state_and_a_page_three_more() -> None:
    """What a resolved unknown costs: 4 transitions for 25 jobs, 43 for the thousand of a page."""
    machine = definition(groups_at_once=8)
    group = machine["States"]["Each group"]["ItemProcessor"]

    assert list(machine["States"]) == ["Find", "Each group", "Finish"]
    assert group["States"][group["StartAt"]]["End"]


def test_group_whose_worker_dies_is_tried_one_job_at_a_time_and_then_becomes_a_result() -> None:
    each = definition(groups_at_once=8)["States"]["Each group"]
    states = each["ItemProcessor"]["States"]
    (first,), (second,) = states["Resolve"]["Catch"], states["One at a time"]["Catch"]

    assert each["MaxConcurrency"] == 8
    assert (first["ErrorEquals"], first["Next"]) == (["States.ALL"], "One at a time")
    assert states["One at a time"]["Parameters"]["Payload"]["at_once"] == 1
    assert (second["ErrorEquals"], second["Next"]) == (["States.ALL"], "Not looked at")
    assert states["Not looked at"]["Parameters"] == {
        "items.$": "$.items",
        "error.$": "$.error.Error",
    }


def test_no_execution_fails_for_what_an_item_ended_in() -> None:
    kinds = {state["Type"] for _, state in every_state(definition(groups_at_once=8))}

    assert "Fail" not in kinds


def test_the_template_holds_this_definition_and_its_functions(prod: Assembly) -> None:
    (machine,) = prod.of_type("AWS::StepFunctions::StateMachine").values()
    properties = machine["Properties"]
    functions = {
        name: prod.path(value["Fn::GetAtt"][0])
        for name, value in properties["DefinitionSubstitutions"].items()
    }

    assert json.loads(properties["DefinitionString"]) == definition(groups_at_once=8)
    assert functions == {
        "FindArn": "Reconciler/Find/Function",
        "ResolveArn": "Reconciler/Resolve/Function",
        "FinishArn": "Reconciler/Finish/Function",
    }
    assert properties["StateMachineType"] == "STANDARD"


def test_schedule_asks_each_minute_whether_anything_is_due_and_starts_no_execution(
    prod: Assembly,
) -> None:
    (schedule,) = prod.of_type("AWS::Scheduler::Schedule").values()
    properties = schedule["Properties"]

    assert properties["ScheduleExpression"] == "rate(1 minute)"
    assert properties["State"] == "ENABLED"
    assert json.loads(properties["Target"]["Input"]) == {}
    assert properties["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
    target = properties["Target"]["Arn"]["Fn::GetAtt"][0]
    assert prod.path(target) == "Reconciler/Find/Function"


def test_its_functions_start_the_machine_by_the_name_that_it_has(prod: Assembly) -> None:
    (machine,) = prod.of_type("AWS::StepFunctions::StateMachine").values()
    name = machine["Properties"]["StateMachineName"]

    assert name == "Oncely-prod-reconciler"
    for function in ("Reconciler/Find", "Reconciler/Finish"):
        properties = prod.functions[function].properties
        arn = json.dumps(properties["Environment"]["Variables"]["RECONCILER_ARN"])
        assert arn.endswith(f':stateMachine:{name}"]]}}')


def test_groups_that_run_at_once_share_what_a_provider_takes(prod: Assembly) -> None:
    variables = prod.functions["Reconciler/Resolve"].variables

    assert variables["STRIPE_READS_PER_SECOND"] == "12.5"
    assert variables["HUBSPOT_READS_PER_SECOND"] == "1.25"
