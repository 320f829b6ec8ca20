"""Rejects settings that would break a guarantee, with an explanation for each."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from oncely.contracts.job import AnyJob
from oncely.core.job_row import CLOCK_SKEW
from oncely.core.profiles import COMMIT_BUDGET
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import DEAD_LETTER_RETENTION_DAYS, OncelySettings, Risk


class UnsafeStageError(Exception):
    """The settings of the stage contradict each other."""


def validate_stage(stage: OncelySettings, contracts: Iterable[type[AnyJob]]) -> None:
    """Check a stage. Raises UnsafeStageError with one line for each problem."""
    contract_types = tuple(contracts)
    if not contract_types:
        raise UnsafeStageError("No contracts are registered, so the stack has nothing to run.")
    faults = (
        *(fault for one in contract_types for fault in _time_for_one_job(stage, one)),
        *_production_risks(stage),
        *(fault for one in contract_types for fault in _proof_retention(stage, one)),
        *(fault for one in contract_types for fault in _table_retention(stage, one)),
    )
    if faults:
        raise UnsafeStageError("\n".join(faults))


def max_run_seconds(contracts: Iterable[type[AnyJob]]) -> tuple[float, str]:
    """The longest run of these jobs, and its job type."""
    runs = ((policy.max_duration, one) for one in contracts for policy in one.policies.values())
    longest, contract_type = max(runs, key=lambda item: item[0])
    return _seconds(longest), contract_type.job_type


def lease_seconds(contracts: Iterable[type[AnyJob]], *, worker_timeout_seconds: float) -> float:
    """The longest lease of these jobs."""
    requests = (one.profile.request_timeout for kind in contracts for one in kind.policies.values())
    return worker_timeout_seconds + _seconds(max(requests) + CLOCK_SKEW)


def _time_for_one_job(stage: OncelySettings, contract_type: type[AnyJob]) -> Iterator[str]:
    """All calls at their timeouts plus the commit must fit, or Lambda stops the job halfway."""
    policy = max(contract_type.policies.values(), key=lambda one: one.max_duration)
    profile = policy.profile
    for name in ("worker_timeout_seconds", "reconciler_timeout_seconds"):
        timeout: int = getattr(stage, name)
        if policy.max_duration >= timedelta(seconds=timeout):
            yield (
                f"{name} is {timeout} s but must be more than "
                f"{_seconds(policy.max_duration)} s, the longest run of "
                f"{contract_type.job_type}: {profile.max_calls} calls of "
                f"{_seconds(profile.request_timeout)} s to {profile.name}, and "
                f"{_seconds(COMMIT_BUDGET)} s to record the result."
            )


def _production_risks(stage: OncelySettings) -> Iterator[str]:
    if not stage.production:
        return
    plain = sorted(
        name
        for name, value in stage.provider_settings.items()
        if value.strip().lower().startswith("http:")
    )
    risks: Mapping[Risk, tuple[bool, str]] = {
        "no_alert_recipient": (
            not stage.alert_email,
            "alert_email is not set, so no operator is alerted when a job needs review",
        ),
        "plain_http_provider": (
            bool(plain),
            f"{', '.join(plain)} is a plain HTTP address, which sends the API key unencrypted",
        ),
    }
    for name, (present, sentence) in risks.items():
        if present and name not in stage.accepted_risks:
            yield f'{sentence}. Change it, or accept it by name: accepted_risks = ["{name}"].'


def _proof_retention(stage: OncelySettings, contract_type: type[AnyJob]) -> Iterator[str]:
    """The proof that a job ran must outlive every way to run it again."""
    row_retention = timedelta(days=stage.row_retention_days)
    kept = contract_type.effective_retention(row_retention)
    by_stage = contract_type.proof_retention is None and kept == row_retention
    name = "row_retention_days" if by_stage else "proof_retention"
    ways = {
        f"queue_retention_days + {DEAD_LETTER_RETENTION_DAYS} days of dead letters": timedelta(
            days=stage.queue_retention_days + DEAD_LETTER_RETENTION_DAYS
        ),
        "replay_window_days": timedelta(days=stage.replay_window_days),
        **{
            f"the key window of {policy.profile.name}": policy.profile.key_ttl or timedelta(0)
            for policy in contract_type.policies.values()
        },
    }
    way, least = max(ways.items(), key=lambda item: item[1])
    if kept <= least:
        yield (
            f"{name} of {contract_type.job_type} is {_days(kept)} days but must be more than "
            f"{_days(least)} days ({way}). Until then a message could run an ended job again."
        )


def _table_retention(stage: OncelySettings, contract_type: type[AnyJob]) -> Iterator[str]:
    """The rows of a business table must outlive every message that could write them again."""
    kept = contract_type.effective_retention(timedelta(days=stage.row_retention_days))
    required = RequiredResources((contract_type,))
    for table, days in stage.retention_days_of(required).items():
        if table in required.written_tables and timedelta(days=days) < kept:
            yield (
                f"table_retention_days.{table} is {days} days but must be at least {_days(kept)} "
                f"days, as long as the rows of {contract_type.job_type} prove that it ran. Until "
                "then a message could arrive that is older than a row of this table."
            )


def _days(time: timedelta) -> str:
    return f"{time / timedelta(days=1):g}"


def _seconds(time: timedelta) -> float:
    seconds = time.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds
