"""The reconciler's state machine in the States language, apart from who builds it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

# Where the functions' ARNs go when the stack is deployed.
FIND: Final = "FindArn"
RESOLVE: Final = "ResolveArn"
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
    """Find, resolve some at once, count; a failing item never stops its neighbours."""
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
                "ResultPath": "$.results",
                "Next": "Count",
            },
            "Count": _invoke(
                COUNT,
                {"Payload": {"results.$": "$.results"}},
                OutputPath="$.Payload",
                Next="Was each one looked at?",
            ),
            "Was each one looked at?": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.counts.error", "IsPresent": True, "Next": "Some were not"}
                ],
                "Default": "Done",
            },
            # The alarm on failed executions tells a person; the counts are in the cause.
            "Some were not": {
                "Type": "Fail",
                "Error": "ItemsNotLookedAt",
                "CausePath": "States.JsonToString($.counts)",
            },
            "Done": {"Type": "Succeed"},
        },
    }


def _one_item() -> dict[str, State]:
    return {
        "Resolve": _invoke(
            RESOLVE,
            {"Payload.$": "$"},
            Catch=[
                {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Not looked at"}
            ],
            OutputPath="$.Payload",
            End=True,
        ),
        # Its row is still due, so the next sweep finds it again.
        "Not looked at": {
            "Type": "Pass",
            "Parameters": {
                "key.$": "$.key",
                "dry_run.$": "$.dry_run",
                "outcome": "error",
                "old": None,
                "new": None,
                "reason.$": "$.error.Error",
            },
            "End": True,
        },
    }


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
