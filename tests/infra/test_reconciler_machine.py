"""The reconciler's state machine: bounded, total, and only ever calling functions."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.reconciler_machine import definition, missing_targets
from tests.infra.assembly import Assembly


def every_state(machine: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, state in machine["States"].items():
        yield name, state
        if "ItemProcessor" in state:
            yield from every_state(state["ItemProcessor"])


def test_every_target_is_there() -> None:
    assert list(missing_targets(definition(at_once=10))) == []


def test_a_target_that_is_not_there_is_found() -> None:
    machine = definition(at_once=10)
    machine["States"]["Find"]["Next"] = "Nowhere"
    machine["States"]["Each"]["ItemProcessor"]["States"]["Resolve"]["Catch"][0]["Next"] = "Never"

    assert set(missing_targets(machine)) == {"Nowhere", "Never"}


def test_it_only_calls_functions_and_tries_again_what_lambda_itself_failed() -> None:
    tasks = {
        name: one for name, one in every_state(definition(at_once=10)) if one["Type"] == "Task"
    }

    assert set(tasks) == {"Find", "Resolve", "Tell", "Count"}
    for task in tasks.values():
        assert task["Resource"] == "arn:aws:states:::lambda:invoke"
        (retry,) = task["Retry"]
        assert all(error.startswith("Lambda.") for error in retry["ErrorEquals"])


@pytest.mark.parametrize("step", ["Resolve", "Tell"])
def test_items_run_ten_at_a_time_and_a_failing_one_becomes_a_result(step: str) -> None:
    each = definition(at_once=10)["States"]["Each"]
    (caught,) = each["ItemProcessor"]["States"][step]["Catch"]

    assert each["MaxConcurrency"] == 10
    assert caught["ErrorEquals"] == ["States.ALL"]
    assert each["ItemProcessor"]["States"][caught["Next"]]["Parameters"]["outcome"] == "error"


def test_an_item_that_is_owed_an_alert_goes_to_the_step_that_tells_and_no_other_does() -> None:
    states = definition(at_once=10)["States"]["Each"]["ItemProcessor"]["States"]
    branch = states[states["Resolve"]["Next"]]
    (choice,) = branch["Choices"]

    assert (choice["Variable"], choice["BooleanEquals"], choice["Next"]) == (
        "$.alert",
        True,
        "Tell",
    )
    assert states[branch["Default"]] == {"Type": "Pass", "End": True}


def test_no_execution_fails_for_what_an_item_ended_in() -> None:
    kinds = {state["Type"] for _, state in every_state(definition(at_once=10))}

    assert "Fail" not in kinds


def test_the_template_holds_this_definition_and_its_functions(prod: Assembly) -> None:
    (machine,) = prod.of_type("AWS::StepFunctions::StateMachine").values()
    properties = machine["Properties"]
    functions = {
        name: prod.path(value["Fn::GetAtt"][0])
        for name, value in properties["DefinitionSubstitutions"].items()
    }

    assert json.loads(properties["DefinitionString"]) == definition(at_once=10)
    assert functions == {
        "FindArn": "Reconciler/Find/Function",
        "ResolveArn": "Reconciler/Resolve/Function",
        "TellArn": "Reconciler/Tell/Function",
        "CountArn": "Reconciler/Count/Function",
    }
    assert properties["StateMachineType"] == "STANDARD"


def test_a_sweep_begins_each_minute_with_an_input_that_asks_for_everything_due(
    prod: Assembly,
) -> None:
    (schedule,) = prod.of_type("AWS::Scheduler::Schedule").values()
    properties = schedule["Properties"]

    assert properties["ScheduleExpression"] == "rate(1 minute)"
    assert properties["State"] == "ENABLED"
    assert json.loads(properties["Target"]["Input"]) == {}
