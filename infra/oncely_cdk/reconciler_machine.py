"""The reconciler's state machine in the States language, apart from who builds it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

# Where the functions' ARNs go when the stack is deployed.
FIND: Final = "FindArn"
RESOLVE: Final = "ResolveArn"
FINISH: Final = "FinishArn"

# All the groups of a page, each tried again and again, and still some time.
TIMEOUT_SECONDS: Final = 30 * 60

State = dict[str, Any]

# Only what Lambda itself had trouble with; a retry does not help with what a function raised.
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


def definition(*, max_concurrency: int) -> State:
    """Find a page, resolve its groups, some at once, and finish; three states and one per group.

    A group whose worker dies is tried once more, one job at a time. If that fails too, its jobs
    are named in the output, and stay due.
    """
    return {
        "Comment": "Oncely: unknown becomes known, lost becomes found",
        "TimeoutSeconds": TIMEOUT_SECONDS,
        "StartAt": "Find",
        "States": {
            "Find": _invoke(
                FIND,
                {
                    "Payload": {
                        "sweep.$": "$",  # the function knows what an input may say and leave out
                        "execution.$": "$$.Execution.Id",
                        "started_at.$": "$$.Execution.StartTime",
                    }
                },
                ResultSelector={"groups.$": "$.Payload.groups", "sweep.$": "$.Payload.sweep"},
                Next="Each group",
            ),
            "Each group": {
                "Type": "Map",
                "ItemsPath": "$.groups",
                "MaxConcurrency": max_concurrency,
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "INLINE"},
                    "StartAt": "Resolve",
                    "States": _group_states(),
                },
                "ResultPath": "$.results",
                "Next": "Finish",
            },
            "Finish": _invoke(
                FINISH,
                {"Payload": {"results.$": "$.results", "sweep.$": "$.sweep"}},
                OutputPath="$.Payload",
                End=True,
            ),
        },
    }


def _group_states() -> dict[str, State]:
    one_by_one = {f"{name}.$": f"$.{name}" for name in ("items", "dry_run", "bytes")}
    return {
        "Resolve": _invoke(
            RESOLVE,
            {"Payload.$": "$"},
            Catch=_catch_all("One at a time"),
            OutputPath="$.Payload",
            End=True,
        ),
        "One at a time": _invoke(
            RESOLVE,
            {"Payload": {**one_by_one, "at_once": 1}},
            Catch=_catch_all("Not looked at"),
            OutputPath="$.Payload",
            End=True,
        ),
        # Their rows are still due, so the next sweep finds them again.
        "Not looked at": {
            "Type": "Pass",
            "Parameters": {"items.$": "$.items", "error.$": "$.error.Error"},
            "End": True,
        },
    }


def _catch_all(next_state: str) -> list[State]:
    """Whatever the function ended in, Lambda's own troubles too."""
    return [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": next_state}]


def _invoke(function: str, parameters: Mapping[str, Any], **more: Any) -> State:  # noqa: ANN401  # fields of the States language
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": f"${{{function}}}", **parameters},
        "Retry": [dict(_RETRY)],
        **more,
    }


def find_undefined_states(machine: Mapping[str, Any]) -> Iterator[str]:
    """The states that are named and not there: engines accept those, and fail in the night."""
    states: Mapping[str, State] = machine["States"]
    wanted = [machine["StartAt"]]
    for state in states.values():
        wanted += [state[name] for name in ("Next", "Default") if name in state]
        branches = (*state.get("Choices", ()), *state.get("Catch", ()))
        wanted += [branch["Next"] for branch in branches]
        if "ItemProcessor" in state:
            yield from find_undefined_states(state["ItemProcessor"])
    yield from sorted(set(wanted) - set(states))
