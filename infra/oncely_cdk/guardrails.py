"""Rejects settings that would break a guarantee, with an explanation for each."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from oncely.contracts.contract import AnyContract
from oncely.core.job_row import CLOCK_SKEW
from oncely.core.profiles import COMMIT_BUDGET, ProviderProfile
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import OncelySettings, Risk

# AWS's recommendation: a batch may be retried and throttled before its messages reappear.
VISIBILITY_FACTOR: Final = 6


class UnsafeStageError(Exception):
    """The settings of the stage contradict each other."""


def validate_stage(stage: OncelySettings, contracts: Iterable[type[AnyContract]]) -> None:
    """Check a stage. Raises UnsafeStageError with one line for each problem."""
    contract_types = tuple(contracts)
    if not contract_types:
        raise UnsafeStageError("No contracts are registered, so the stack has nothing to run.")
    faults = (
        *_visibility(stage),
        *(fault for one in contract_types for fault in _time_for_one_job(stage, one)),
        *_lease(stage, contract_types),
        *_dead_letters(stage),
        *_rejects(stage),
        *_production_risks(stage),
        *(fault for one in contract_types for fault in _proof_retention(stage, one)),
        *(fault for one in contract_types for fault in _table_retention(stage, one)),
    )
    if faults:
        raise UnsafeStageError("\n".join(faults))


def min_visibility_seconds(timeout_seconds: float) -> float:
    """The minimum visibility timeout for a function with this timeout."""
    return VISIBILITY_FACTOR * timeout_seconds


def max_run_seconds(contracts: Iterable[type[AnyContract]]) -> tuple[float, str]:
    """The longest run of these jobs, and its job type."""
    runs = ((policy.max_duration, one) for one in contracts for policy in one.all_policies())
    longest, contract_type = max(runs, key=lambda item: item[0])
    return _seconds(longest), contract_type.job_type


def lease_seconds(
    contracts: Iterable[type[AnyContract]], *, worker_timeout_seconds: float
) -> float:
    """The longest lease of these jobs."""
    profile, _ = _slowest_profile(contracts)
    return worker_timeout_seconds + _seconds(profile.request_timeout + CLOCK_SKEW)


def _slowest_profile(
    contracts: Iterable[type[AnyContract]],
) -> tuple[ProviderProfile, type[AnyContract]]:
    profiles = [(policy.profile, one) for one in contracts for policy in one.all_policies()]
    return max(profiles, key=lambda item: item[0].request_timeout)


def _visibility(stage: OncelySettings) -> Iterator[str]:
    # The consumers of dead letters and rejects have the reconciler's timeout.
    visibility = stage.visibility_timeout_seconds
    for name in ("worker_timeout_seconds", "reconciler_timeout_seconds"):
        timeout: int = getattr(stage, name)
        least = min_visibility_seconds(timeout)
        if visibility < least:
            yield (
                f"visibility_timeout_seconds is {visibility} s but must be at least {least} s, "
                f"{VISIBILITY_FACTOR} times {name} ({timeout} s). Otherwise a message reappears "
                "while its function may still run."
            )


def _time_for_one_job(stage: OncelySettings, contract_type: type[AnyContract]) -> Iterator[str]:
    """All calls at their timeouts plus the commit must fit, or Lambda stops the job halfway."""
    policy = max(contract_type.all_policies(), key=lambda one: one.max_duration)
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


def _lease(stage: OncelySettings, contract_types: Iterable[type[AnyContract]]) -> Iterator[str]:
    """A message that reappears during the lease wastes a receive: its job is still claimed."""
    profile, contract_type = _slowest_profile(contract_types)
    lease = lease_seconds([contract_type], worker_timeout_seconds=stage.worker_timeout_seconds)
    if lease >= stage.visibility_timeout_seconds:
        yield (
            f"visibility_timeout_seconds is {stage.visibility_timeout_seconds} s but must be more "
            f"than {lease:g} s, the lease of {contract_type.job_type}: worker_timeout_seconds + "
            f"the request timeout of {profile.name} + "
            f"{_seconds(CLOCK_SKEW)} s of clock skew. Otherwise a message reappears before the "
            "lease expires."
        )


def _dead_letters(stage: OncelySettings) -> Iterator[str]:
    """SQS counts a dead letter's age from its first send, so its retention must be longer."""
    if stage.dead_letter_retention_days <= stage.queue_retention_days:
        yield (
            f"dead_letter_retention_days is {stage.dead_letter_retention_days} days but must be "
            f"more than queue_retention_days ({stage.queue_retention_days} days): SQS counts both "
            "from the first send."
        )


def _rejects(stage: OncelySettings) -> Iterator[str]:
    if stage.rejects_retention_days < stage.dead_letter_retention_days:
        yield (
            f"rejects_retention_days is {stage.rejects_retention_days} days but must be at least "
            f"dead_letter_retention_days ({stage.dead_letter_retention_days} days): a rejected "
            "message can be corrected for as long as a dead letter."
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
        "optional_mfa": (
            stage.sign_in_mfa != "required",
            "sign_in_mfa is optional, so a stolen password is enough to repair jobs",
        ),
        "plain_http_provider": (
            bool(plain),
            f"{', '.join(plain)} is a plain HTTP address, which sends the API key unencrypted",
        ),
        "plain_http_queues": (
            not stage.tls_only,
            "tls_only is false, so queues and buckets accept plain HTTP",
        ),
    }
    for name, (present, sentence) in risks.items():
        if present and name not in stage.accepted_risks:
            yield f'{sentence}. Change it, or accept it by name: accepted_risks = ["{name}"].'


def _proof_retention(stage: OncelySettings, contract_type: type[AnyContract]) -> Iterator[str]:
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
        **{
            f"the key window of {policy.profile.name}": policy.profile.key_ttl or timedelta(0)
            for policy in contract_type.all_policies()
        },
    }
    way, least = max(ways.items(), key=lambda item: item[1])
    if kept <= least:
        yield (
            f"{name} of {contract_type.job_type} is {_days(kept)} days but must be more than "
            f"{_days(least)} days ({way}). Until then a message could run an ended job again."
        )


def _table_retention(stage: OncelySettings, contract_type: type[AnyContract]) -> Iterator[str]:
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
