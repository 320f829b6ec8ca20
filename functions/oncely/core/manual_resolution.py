"""How an operator ends a job: whether the provider's answer allows it, and with which decision."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, assert_never

from oncely.core.decisions import ENDED_FIELDS, absence_conclusive_at
from oncely.core.effect_outcomes import (
    Anomalous,
    Declined,
    Json,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    Pending,
    StillOpen,
    Succeeded,
)
from oncely.core.job_row import MARKED_BY_OPERATOR, RESOLVED_BY_OPERATOR, Decision, JobRow
from oncely.core.lifecycle import Event
from oncely.core.profiles import RetryPolicy
from oncely.core.repairs import Repair
from oncely.core.text import format_minute, single_line

_WAIT: Final = "wait until the provider has decided, then try again"
_UNDO_FIRST: Final = "undo all of it at the provider first, or mark the job as done"


def objection_to_finished(
    outcome: LookupOutcome, *, reference: str | None, references: frozenset[str]
) -> str | None:
    """What to do instead of marking the job as done. Returns None if the provider confirms it.

    `references` are the ids by which the provider knows the effect that it found.
    """
    match outcome:
        case Succeeded() | Anomalous(effect_done=True) if (
            references and reference not in references
        ):
            return (
                f"the provider calls it {' or '.join(sorted(references))}: check which one you saw"
            )
        case Succeeded() | Anomalous(effect_done=True):
            return None
        case Anomalous():
            return "resolve that at the provider, or undo it there and mark the job as failed"
        case LookupFailed(unknown_reference=True):
            return (
                "check that our API key is of the right account. If it is, mark the job as failed: "
                "that searches for its own effect first"
            )
        case Declined() | StillOpen() | NotFound():
            return "mark it as failed, or return it to ready"
        case Pending():
            return _WAIT
        case LookupFailed() | LookupUnsupported():
            return "try again"
        case unreachable:
            assert_never(unreachable)


def objection_to_failed(
    job: JobRow, policy: RetryPolicy, outcome: LookupOutcome, *, looked_up_at: datetime
) -> str | None:
    """What to do instead of marking the job as failed. Returns None if nothing contradicts it."""
    match outcome:
        case Declined():
            return None
        case NotFound(conclusive=True):
            return None
        case NotFound():
            proof_from = absence_conclusive_at(job, policy)
            if looked_up_at >= proof_from:
                return None
            return f"a request may still be in flight: try again after {format_minute(proof_from)}"
        case Succeeded() | Anomalous():
            return _UNDO_FIRST
        case StillOpen():
            return "a worker must close it first"
        case Pending():
            return _WAIT
        case LookupFailed() | LookupUnsupported():
            return "try again"
        case unreachable:
            assert_never(unreachable)


def objection_to_reference(reference: str | None, references: frozenset[str]) -> str | None:
    """What to do about a reference that is not this job's. Returns None if there is none."""
    if reference is None or reference in references:
        return None
    known = " or ".join(sorted(references)) or "none for this job"
    return f"the provider knows {known}: name that, or leave the reference out"


def resolve_manually(
    job: JobRow,
    repair: Repair,
    *,
    reason: str,
    reference: str | None,
    confirmed: LookupOutcome | None = None,
    answer: str = "",
) -> Decision:
    """End a job as the operator decided. `confirmed` is the provider's answer, if there is one.

    `answer` is the same in words, for the evidence. A finished job gets the result that the
    provider reports. If it was not asked, the code says so: see `JobRow.marked_by`.
    """
    finished = repair is Repair.MARK_FINISHED
    said = reason if reference is None else f"{reason} (reference {reference})"
    full_reason = "; ".join(filter(None, (said, answer)))
    own = dict(job.result or {})
    result = {**own, **({"reference": reference} if reference else {})}
    match confirmed:
        case Succeeded(ref=ref, result=found) | Anomalous(ref=ref, result=found) if finished:
            result, reference = dict(found) or own, ref
        case None:
            result["code"] = MARKED_BY_OPERATOR
        case _:
            result = {"code": RESOLVED_BY_OPERATOR, **result}
    return Decision(
        event=Event.RESOLVE_FINISHED if finished else Event.RESOLVE_FAILED,
        reason=full_reason,
        changes={
            **ENDED_FIELDS,
            "result": result,
            # The proof of a failure, such as a refund, must not be looked up or canceled later.
            "provider_ref": job.provider_ref or (reference if finished else None),
            "last_error": None if finished else single_line(full_reason),
        },
    )


def resolved_elsewhere(own: Mapping[str, Json], outcome: LookupOutcome) -> bool:
    """Whether the business rows were changed by another payment, such as a manual one."""
    return isinstance(outcome, Succeeded) and any(
        own.get(name) != value for name, value in outcome.result.items()
    )
