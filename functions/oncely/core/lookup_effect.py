"""Looks up an effect: business rows first, then the provider. Changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oncely.core.due import flag_changed_values
from oncely.core.effect_outcomes import (
    Anomalous,
    Declined,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    Prepared,
    StillOpen,
    Succeeded,
    checked_lookup,
)
from oncely.core.errors import NotConfiguredError
from oncely.core.job_row import JobRow
from oncely.core.job_type import (
    AlreadyResolved,
    AnyJobType,
    AnyMessage,
    EffectCall,
    Mismatch,
    PrecheckResult,
)
from oncely.core.keys import fingerprint
from oncely.core.profiles import RetrySafety
from oncely.core.table_identity import TableOpen, may_have_lost_history, may_lack_reference


@dataclass(frozen=True)
class LookupResult:
    """The outcome of a lookup. Without facts there are no business writes."""

    outcome: LookupOutcome
    facts: Any = None  # the contract's own type
    restored_fields: Mapping[str, str | None] = field(default_factory=dict)  # what the row lost

    @property
    def is_answered(self) -> bool:
        """Whether the business rows said what to look up, and the provider answered."""
        if isinstance(self.outcome, LookupFailed):
            return self.outcome.unknown_reference  # it answered, and waiting does not help
        unasked = isinstance(self.outcome, Anomalous) and self.facts is None
        return not unasked and not isinstance(self.outcome, LookupUnsupported)


def lookup_closed(row: JobRow, contract: AnyJobType) -> LookupOutcome:
    """Look up whether the prepared effect is closed. Any error is a failed lookup."""
    try:
        return contract.lookup_closed(row)
    except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
        return LookupFailed(f"the lookup failed with {type(error).__name__}: {error}")


def lookup_effect(
    row: JobRow, contract: AnyJobType, message: AnyMessage, table: TableOpen
) -> LookupResult:
    """Look up the effect of a job. Any error is a failed lookup, which is repeated later."""
    try:
        precheck = contract.precheck(message)
    except Exception as error:  # noqa: BLE001  # whatever the business rows or a contract raise
        return LookupResult(
            LookupFailed(f"the business rows could not be read: {type(error).__name__}: {error}")
        )
    if isinstance(precheck, Mismatch):
        return LookupResult(Anomalous(precheck.reason))
    if precheck.facts is None:
        return LookupResult(Anomalous("the business rows no longer say what the job should do"))
    if contract.provider is None:
        # A restore may have lost it with the claim.
        contract = contract.with_provider(precheck.provider)
    try:
        # The same key as when it was sent; another would find nothing.
        key_length = contract.policy.profile.max_key_length
        call = EffectCall(job=row, facts=precheck.facts, max_key_length=key_length)
        if may_lack_reference(row, contract.policy, table.replays_until, claims=row.fence):
            answer, found = _find_and_look_up(contract, call, table)
        else:
            answer, found = checked_lookup(contract.lookup(call)), {}
    except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
        lookup_failed = LookupFailed(f"the lookup failed with {type(error).__name__}: {error}")
        return LookupResult(lookup_failed, precheck.facts)
    values = None if precheck.values is None else fingerprint(precheck.values)
    checked_outcome = flag_changed_values(row, answer, values)
    failed_since = row.status.is_finished and isinstance(answer, Declined | StillOpen)
    if failed_since and checked_outcome is not answer:
        # What the business rows ask for now does not undo that. They are not written.
        return LookupResult(answer, None, found)
    if may_have_lost_history(row, table.replays_until) and _is_recorded(checked_outcome, precheck):
        return LookupResult(checked_outcome, None, found)
    return LookupResult(checked_outcome, precheck.facts, found)


def with_key_scope(contract: AnyJobType, outcome: LookupOutcome) -> tuple[str, LookupOutcome]:
    """The scope of idempotency keys now, and the outcome of a lookup."""
    try:
        return contract.key_scope(), outcome
    except NotConfiguredError as error:
        # A resend depends on the scope, so without it nothing is known.
        resends = isinstance(outcome, LookupUnsupported | NotFound)
        return "", LookupFailed(str(error)) if resends else outcome


def find_own_reference(
    row: JobRow, contract: AnyJobType, message: AnyMessage
) -> Prepared | LookupOutcome | None:
    """Find the job's reference without its row. Returns None if it cannot be searched for."""
    try:
        precheck = contract.precheck(message)
        if isinstance(precheck, Mismatch) or precheck.facts is None:
            return None  # without facts there is nothing to search by, which the repair reports
        return contract.find_prepared(EffectCall(job=row, facts=precheck.facts))
    except Exception as error:  # noqa: BLE001  # whatever the business rows or a provider's SDK raise
        return LookupFailed(f"the lookup failed with {type(error).__name__}: {error}")


def _find_and_look_up(
    contract: AnyJobType, call: EffectCall[Any], table: TableOpen
) -> tuple[LookupOutcome, dict[str, str | None]]:
    """Look up by deployment and job key first: the row may lack its reference."""
    call = replace(call, job=_with_deployment(call.job, table))
    found: dict[str, str | None] = {}
    if call.job.provider_ref is None:
        match contract.find_prepared(call):
            case None:
                pass
            case Prepared(ref=ref):
                found = _restored_fields(ref, contract, call.job)
                call = replace(call, job=replace(call.job, provider_ref=ref))
            case answer:
                return answer, {}
    answer = checked_lookup(contract.lookup(call))
    if isinstance(answer, LookupUnsupported) and contract.policy.safety is not RetrySafety.NATURAL:
        # The lost part may have used its key, so no key window makes a resend safe.
        answer = Anomalous(f"the job table was restored, so it may have happened; {answer.reason}")
    return answer, found


def _restored_fields(ref: str, contract: AnyJobType, job: JobRow) -> dict[str, str | None]:
    return {"provider_ref": ref, "deployment": job.deployment, "provider": contract.provider}


def _is_recorded(outcome: LookupOutcome, precheck: PrecheckResult[Any]) -> bool:
    """Whether the business rows already have this effect, so that only the job's row was lost."""
    known = precheck.outcome if isinstance(precheck, AlreadyResolved) else None
    return (
        isinstance(outcome, Succeeded)
        and isinstance(known, Succeeded)
        and all(outcome.result.get(name) == value for name, value in known.result.items())
    )


def _with_deployment(row: JobRow, table: TableOpen) -> JobRow:
    """The row with its deployment, which it lost together with its first claim."""
    return replace(row, deployment=row.deployment or table.deployment)
