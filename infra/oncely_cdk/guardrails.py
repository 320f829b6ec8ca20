"""Rejects settings that would break a guarantee, with an explanation for each."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from oncely.contract import AnyContract
from oncely.domain.jobs import CLOCK_SKEW
from oncely.domain.profiles import COMMIT_BUDGET
from oncely_cdk.stages import Stage

# AWS's recommendation: a batch may be retried and throttled before its messages reappear.
VISIBILITY_FACTOR: Final = 6


class UnsafeStageError(Exception):
    """The settings of the stage contradict each other."""


def validate_stage(stage: Stage, contracts: Iterable[type[AnyContract]]) -> None:
    """Check a stage. Raises UnsafeStageError with one line for each problem."""
    contract_types = tuple(contracts)
    if not contract_types:
        raise UnsafeStageError("No contracts are registered, so the stack has nothing to run.")
    faults = (
        *_visibility(stage),
        *(fault for one in contract_types for fault in _time_for_one_job(stage, one)),
        *_lease(stage, max(contract_types, key=lambda one: one.policy.profile.request_timeout)),
        *_dead_letters(stage),
        *(fault for one in contract_types for fault in _proof_retention(stage, one)),
    )
    if faults:
        raise UnsafeStageError("\n".join(faults))


def _visibility(stage: Stage) -> Iterator[str]:
    # The consumers of dead letters and rejects have the reconciler's timeout.
    visibility = stage.visibility_timeout_seconds
    for name in ("worker_timeout_seconds", "reconciler_timeout_seconds"):
        timeout: int = getattr(stage, name)
        least = VISIBILITY_FACTOR * timeout
        if visibility < least:
            yield (
                f"visibility_timeout_seconds is {visibility} s but must be at least {least} s, "
                f"{VISIBILITY_FACTOR} times {name} ({timeout} s). Otherwise a message reappears "
                "while its function may still run."
            )


def _time_for_one_job(stage: Stage, contract_type: type[AnyContract]) -> Iterator[str]:
    """All calls at their timeouts plus the commit must fit, or Lambda stops the job halfway."""
    profile = contract_type.policy.profile
    for name in ("worker_timeout_seconds", "reconciler_timeout_seconds"):
        timeout: int = getattr(stage, name)
        if contract_type.policy.max_duration >= timedelta(seconds=timeout):
            yield (
                f"{name} is {timeout} s but must be more than "
                f"{_seconds(contract_type.policy.max_duration)} s, the longest run of "
                f"{contract_type.job_type}: {profile.max_calls} calls of "
                f"{_seconds(profile.request_timeout)} s to {profile.name}, and "
                f"{_seconds(COMMIT_BUDGET)} s to record the result."
            )


def _lease(stage: Stage, contract_type: type[AnyContract]) -> Iterator[str]:
    """A message that reappears during the lease wastes a receive: its job is still claimed."""
    lease = stage.worker_timeout_seconds + _seconds(
        contract_type.policy.profile.request_timeout + CLOCK_SKEW
    )
    if lease >= stage.visibility_timeout_seconds:
        yield (
            f"visibility_timeout_seconds is {stage.visibility_timeout_seconds} s but must be more "
            f"than {lease:g} s, the lease of {contract_type.job_type}: worker_timeout_seconds + "
            f"the request timeout of {contract_type.policy.profile.name} + "
            f"{_seconds(CLOCK_SKEW)} s of clock skew. Otherwise a message reappears before the "
            "lease expires."
        )


def _dead_letters(stage: Stage) -> Iterator[str]:
    """SQS counts a dead letter's age from its first send, so its retention must be longer."""
    if stage.dead_letter_retention_days <= stage.queue_retention_days:
        yield (
            f"dead_letter_retention_days is {stage.dead_letter_retention_days} days but must be "
            f"more than queue_retention_days ({stage.queue_retention_days} days): SQS counts both "
            "from the first send."
        )


def _proof_retention(stage: Stage, contract_type: type[AnyContract]) -> Iterator[str]:
    """The proof that a job ran must outlive every way to run it again."""
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
            f"{name} of {contract_type.job_type} is {_days(kept)} days but must be more than "
            f"{_days(least)} days ({way}). Until then a message could run an ended job again."
        )


def _days(time: timedelta) -> str:
    return f"{time / timedelta(days=1):g}"


def _seconds(time: timedelta) -> float:
    seconds = time.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds
