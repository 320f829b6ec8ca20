"""The reconciler's state machine in Amazon States Language."""

from collections.abc import Mapping
from typing import Any, Final

# Placeholders for the functions' ARNs, substituted at deployment.
FIND: Final = "FindArn"
RESOLVE: Final = "ResolveArn"
FINISH: Final = "FinishArn"

# Enough for all groups of a page with all their retries.
TIMEOUT_SECONDS: Final = 30 * 60

State = dict[str, Any]

# Only errors of Lambda itself. Retrying an exception of the function does not help.
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
    """Find a page of due jobs, resolve its groups concurrently, and finish.

    A group whose function crashes is retried once, one job at a time. If that fails too, the
    output lists its jobs, and they stay due.
    """
    return {
        "Comment": "Oncely: one sweep of the reconciler",
        "TimeoutSeconds": TIMEOUT_SECONDS,
        "StartAt": "Find",
        "States": {
            "Find": _invoke(
                FIND,
                {
                    "Payload": {
                        "sweep.$": "$",  # the function validates the input
                        "execution.$": "$$.Execution.Id",
                        "started_at.$": "$$.Execution.StartTime",
                    }
                },
                ResultSelector={"groups.$": "$.Payload.groups", "sweep.$": "$.Payload.sweep"},
                Next="Process groups",
            ),
            "Process groups": {
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
            Catch=_catch_all("Resolve failed"),
            OutputPath="$.Payload",
            End=True,
        ),
        # The rows are still due, so the next sweep finds them again.
        "Resolve failed": {
            "Type": "Pass",
            "Parameters": {"items.$": "$.items", "error.$": "$.error.Error"},
            "End": True,
        },
    }


def _catch_all(next_state: str) -> list[State]:
    """Catch every error, including those of Lambda itself."""
    return [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": next_state}]


def _invoke(function: str, parameters: Mapping[str, Any], **more: Any) -> State:  # noqa: ANN401  # fields of the States language
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": f"${{{function}}}", **parameters},
        "Retry": [dict(_RETRY)],
        **more,
    }
