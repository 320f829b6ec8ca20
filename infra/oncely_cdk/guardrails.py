"""What the stack refuses to be: numbers that would break the promise, said in a sentence."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from oncely.contract import COMMIT_BUDGET, AnyContract
from oncely.domain.jobs import CLOCK_SKEW
from oncely_cdk.stages import Stage

# Lambda's own advice: a batch may be tried again and throttled before its messages come back.
VISIBILITY_FACTOR: Final = 6


class UnsafeStageError(Exception):
    """The stage's numbers do not go together."""


def validate_stage(stage: Stage, contracts: Iterable[type[AnyContract]]) -> None:
    """Raise with every sentence there is to say about this stage."""
    contract_types = tuple(contracts)
    if not contract_types:
        raise UnsafeStageError("There is no contract, so there is nothing to run.")
    faults = (
        *_visibility(stage),
        *(
            fault
            for contract_type in contract_types
            for fault in _time_for_one_job(stage, contract_type)
        ),
        *_lease(stage, max(contract_types, key=lambda kind: kind.policy.profile.request_timeout)),
        *_dead_letters(stage),
        *(fault for kind in contract_types for fault in _proof_retention(stage, kind)),
    )
    if faults:
        raise UnsafeStageError("\n".join(faults))


def _visibility(stage: Stage) -> Iterator[str]:
    # Dead letters and rejects are worked by functions that have the reconciler's time.
    visibility = stage.visibility_timeout_seconds
    for name in ("worker_timeout_seconds", "reconciler_timeout_seconds"):
        timeout: int = getattr(stage, name)
        least = VISIBILITY_FACTOR * timeout
        if visibility < least:
            yield (
                f"A message would come back after {visibility} s (visibility_timeout_seconds), "
                f"while its function may run for {timeout} s ({name}): visibility_timeout_seconds "
                f"must be at least {VISIBILITY_FACTOR} times that, {least} s."
            )


def _time_for_one_job(stage: Stage, contract_type: type[AnyContract]) -> Iterator[str]:
    """All calls at their timeouts and the commit must fit, or the function dies halfway."""
    profile = contract_type.policy.profile
    timeouts = {"worker_timeout_seconds": stage.worker_timeout_seconds}
    timeouts["reconciler_timeout_seconds"] = stage.reconciler_timeout_seconds
    for name, timeout in timeouts.items():
        if contract_type.max_duration() >= timedelta(seconds=timeout):
            yield (
                f"One {contract_type.job_type} may take {_seconds(contract_type.max_duration())} s "
                f"({profile.max_calls} calls of {_seconds(profile.request_timeout)} s to "
                f"{profile.name}, and {_seconds(COMMIT_BUDGET)} s to record the end), "
                f"but its function is stopped after {timeout} s ({name})."
            )


def _lease(stage: Stage, contract_type: type[AnyContract]) -> Iterator[str]:
    """A message that returns inside the lease finds its job held, and spends a receive on it."""
    lease = stage.worker_timeout_seconds + _seconds(
        contract_type.policy.profile.request_timeout + CLOCK_SKEW
    )
    if lease >= stage.visibility_timeout_seconds:
        yield (
            f"The lease of a {contract_type.job_type} lasts {lease:g} s (worker_timeout_seconds + "
            f"the request timeout of {contract_type.policy.profile.name} + "
            f"{_seconds(CLOCK_SKEW)} s of clock skew), but its message comes back after "
            f"{stage.visibility_timeout_seconds} s (visibility_timeout_seconds), before the lease "
            "is over."
        )


def _dead_letters(stage: Stage) -> Iterator[str]:
    """SQS counts a dead letter's age from its first send, so the later queue must keep longer."""
    if stage.dead_letter_retention_days <= stage.queue_retention_days:
        yield (
            f"Dead letters would be kept for {stage.dead_letter_retention_days} days "
            "(dead_letter_retention_days), counted from the first send, and a queue keeps a "
            f"message for {stage.queue_retention_days} days (queue_retention_days) already: "
            "dead_letter_retention_days must be longer."
        )


def _proof_retention(stage: Stage, contract_type: type[AnyContract]) -> Iterator[str]:
    """The proof that a job ran must outlive everything that could run it again."""
    row_retention = timedelta(days=stage.row_retention_days)
    kept = contract_type.effective_retention(row_retention)
    by_stage = contract_type.proof_retention is None and kept == row_retention
    name = "row_retention_days" if by_stage else "proof_retention"
    ways = {
        "queue_retention_days + dead_letter_retention_days": timedelta(
            days=stage.queue_retention_days + stage.dead_letter_retention_days
        ),
        "replay_window_days": timedelta(days=stage.replay_window_days),
        f"the key window of {contract_type.policy.profile.name}": (
            contract_type.policy.profile.key_ttl or timedelta(0)
        ),
    }
    way, least = max(ways.items(), key=lambda item: item[1])
    if kept <= least:
        yield (
            f"The row of an ended {contract_type.job_type} would be kept for {_days(kept)} days "
            f"({name}), but the job could be run again for {_days(least)} days ({way}): "
            f"{name} must be longer."
        )


def _days(time: timedelta) -> str:
    return f"{time / timedelta(days=1):g}"


def _seconds(time: timedelta) -> float:
    seconds = time.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds
