"""The reconciler's state machine in the States language, apart from who builds it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from oncely.services.sweep_report import ERROR

# Where the functions' ARNs go when the stack is deployed.
FIND: Final = "FindArn"
RESOLVE: Final = "ResolveArn"
TELL: Final = "TellArn"
COUNT: Final = "CountArn"

# All the items of a sweep, each tried again and again, and still some time.
TIMEOUT_SECONDS: Final = 15 * 60

State = dict[str, Any]

# Only what Lambda itself had trouble with; what a function raised is not mended by a repetition.
_RETRY: Final = {
    "ErrorEquals": [
        "Lambda.ClientExecutionTimeoutException",
        "Lambda.ServiceException",
        "Lambda.AWSLambdaException",
        "Lambda.SdkClientException",
        "Lambda.TooManyRequestsException",
    ],
    "IntervalSeconds": 1,
    "BackoffRate": 2,
    "MaxAttempts": 4,
    "JitterStrategy": "FULL",
}


def definition(*, at_once: int) -> State:
    """Find, resolve some at once and tell a person where one is owed an alert, count.

    A failing item never stops its neighbours: it is an item of the output, and an alarm.
    """
    return {
        "Comment": "Oncely: unknown becomes known, lost becomes found",
        "TimeoutSeconds": TIMEOUT_SECONDS,
        "StartAt": "Find",
        "States": {
            "Find": _invoke(
                FIND,
                {"Payload.$": "$"},  # the function knows what an input may say and leave out
                ResultSelector={"items.$": "$.Payload.items"},
                Next="Anything due?",
            ),
            "Anything due?": {
                "Type": "Choice",
                "Choices": [{"Variable": "$.items[0]", "IsPresent": True, "Next": "Each"}],
                "Default": "Nothing due",
            },
            "Nothing due": {
                "Type": "Pass",
                "Result": {"counts": {}, "jobs": []},
                "End": True,
            },
            "Each": {
                "Type": "Map",
                "ItemsPath": "$.items",
                "MaxConcurrency": at_once,
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "INLINE"},
                    "StartAt": "Resolve",
                    "States": _one_item(),
                },
                "Next": "Count",
            },
            "Count": _invoke(
                COUNT,
                {"Payload": {"results.$": "$"}},
                OutputPath="$.Payload",
                End=True,
            ),
        },
    }


def _one_item() -> dict[str, State]:
    return {
        "Resolve": _invoke(
            RESOLVE,
            {"Payload.$": "$"},
            Catch=_caught("Not looked at"),
            OutputPath="$.Payload",
            Next="Is an alert owed?",
        ),
        "Is an alert owed?": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.alert", "BooleanEquals": True, "Next": "Tell"}],
            "Default": "Resolved",
        },
        "Resolved": {"Type": "Pass", "End": True},
        "Tell": _invoke(
            TELL,
            {"Payload.$": "$"},
            Catch=_caught("Not told"),
            OutputPath="$.Payload",
            End=True,
        ),
        # Its row is still due, so the next sweep finds it again.
        "Not looked at": {
            "Type": "Pass",
            "Parameters": {
                "key.$": "$.key",
                "outcome": ERROR,
                "reason.$": "$.error.Error",
            },
            "End": True,
        },
        "Not told": {
            "Type": "Pass",
            "Parameters": {
                "key.$": "$.key",
                "outcome": ERROR,
                "reason.$": "States.Format('nobody was told yet: {}', $.error.Error)",
            },
            "End": True,
        },
    }


def _caught(then: str) -> list[State]:
    """Whatever the function ended in, Lambda's own troubles too."""
    return [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": then}]


def _invoke(function: str, parameters: Mapping[str, Any], **more: Any) -> State:  # noqa: ANN401  # fields of the States language
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": f"${{{function}}}", **parameters},
        "Retry": [dict(_RETRY)],
        **more,
    }


def missing_targets(machine: Mapping[str, Any]) -> Iterator[str]:
    """The states that are named and not there: engines accept those, and fail in the night."""
    states: Mapping[str, State] = machine["States"]
    wanted = [machine["StartAt"]]
    for state in states.values():
        wanted += [state[name] for name in ("Next", "Default") if name in state]
        branches = (*state.get("Choices", ()), *state.get("Catch", ()))
        wanted += [branch["Next"] for branch in branches]
        if "ItemProcessor" in state:
            yield from missing_targets(state["ItemProcessor"])
    yield from sorted(set(wanted) - set(states))
