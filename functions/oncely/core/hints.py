"""Hints: provider events that bring a lookup forward. They never decide the outcome.

Events can be late, repeated, out of order, forged, or of another deployment. So a hint can
only bring a lookup forward, and the lookup decides.
"""

import hmac
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from oncely.core.decide import decide_lookup, escalate, on_lookup_of_ended
from oncely.core.effect_outcomes import Anomalous, LookupOutcome, Succeeded
from oncely.core.job_row import Decision, EventRecord, JobRow, add_record
from oncely.core.keys import claim_tag
from oncely.core.lifecycle import IN_REVIEW, Event, Status
from oncely.core.profiles import RetryPolicy
from oncely.core.text import reason_line, single_line


def claim_of_tag(job: JobRow, tag: str, key: str) -> int | None:
    """The claim of this job that the tag identifies. Returns None if it is forged or another job's.

    `key`: of the deployment's tags. Without one, anybody could make them.
    """
    for fence in range(job.fence if key else 0, 0, -1):
        own = claim_tag(job.job_key, deployment=job.deployment, fence=fence, key=key)
        if hmac.compare_digest(own.encode(), tag.encode(errors="replace")):
            return fence
    return None


def on_proof(row: JobRow) -> Decision | None:
    """Escalate a job whose row says that nothing was sent, or something else.

    Returns None if the events agree with the row, or the row waits for them. The decision is made
    once: an operator who has seen it is not asked again by another delivery.
    """
    outcome = row.proved_outcome
    if outcome is None or _agrees(row):
        return None
    if row.allows(Event.CLAIM):
        decision = escalate(f"it was to be sent, but {outcome.reason}")
    elif row.allows(Event.CONTRADICT):
        reason = f"it is {row.status}, but {outcome.reason}"
        changes = {"expires_at": None, "last_error": single_line(reason)}
        decision = Decision(event=Event.CONTRADICT, reason=reason, changes=changes, alert=True)
    else:
        return None
    known = (entry.reason for entry in row.evidence if entry.event is decision.event)
    return None if reason_line(decision.reason) in known else decision


def ends_review(row: JobRow) -> bool:
    """Whether a proof may end this review: it needs review only because its outcome was unknown."""
    moves = [entry for entry in row.evidence if entry.from_status != entry.to_status]
    if row.status not in IN_REVIEW or not moves:
        return False
    before = moves[-1].from_status
    return isinstance(before, Status) and before.allows(Event.RECHECK)


def _agrees(row: JobRow) -> bool:
    refs = {proof.ref for proof in row.proofs}
    named = refs == {row.provider_ref}
    marked = row.provider_ref is None and row.marked_by is not None and len(refs) == 1
    return row.status.is_finished and (named or marked)


class ReportedState(StrEnum):
    """The result of an effect, according to an event."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PROCESSING = "processing"


class HintAction(StrEnum):
    """What to do about an event."""

    ASK_NOW = "lookup brought forward"
    CHECK_END = "end checked"  # it contradicts the recorded result, so the provider is asked
    KEEP = "kept on the row"
    RECORD = "change recorded"  # of an effect that had succeeded
    WAIT = "worker still runs"  # the event stays in the queue until the worker is done


class DropReason(StrEnum):
    """Why an event is dropped. Each is counted under this name."""

    UNREADABLE = "unreadable"
    OTHER_SOURCE = "other source"
    OTHER_ACCOUNT = "other account"
    OTHER_DEPLOYMENT = "other deployment"
    OTHER_OBJECT = "other object"  # not the one in the job's row
    UNKNOWN_TYPE = "unknown type"
    NO_JOB = "no job"  # or the event arrived before its job
    NOT_NEEDED = "not needed"  # a duplicate, a late event, or one that agrees with the row


def action_for_hint(
    row: JobRow | None, reported: ReportedState, *, deployment: str | None, object_id: str
) -> HintAction | DropReason:
    """What to do about an event of an object at the provider.

    A ready job is not sent early, and one in review raises no second alert. A running
    worker gets the outcome itself, or leaves the job unknown.
    """
    if row is None:
        return DropReason.NO_JOB
    if row.deployment != deployment:
        return DropReason.OTHER_DEPLOYMENT
    if row.provider_ref not in {None, object_id}:
        return DropReason.OTHER_OBJECT
    if row.allows(Event.RECHECK):
        return HintAction.ASK_NOW
    if row.allows(Event.MARK_UNKNOWN):
        return HintAction.WAIT
    not_done = row.status.is_failed or row.status.is_cancelled
    contradicts = (row.status.is_finished and reported is ReportedState.FAILED) or (
        not_done and reported is ReportedState.SUCCEEDED
    )
    return HintAction.CHECK_END if contradicts else DropReason.NOT_NEEDED


def after_event(row: JobRow, event: EventRecord, now: datetime) -> JobRow | None:
    """The row with one more event; an unknown job is due now. Returns None if nothing changes.

    A started job takes only a proof: others would exhaust the tries in which its owner ends it.
    """
    if row.allows(Event.MARK_UNKNOWN) and not event.proves:
        return None
    due_at = row.due_at
    if row.allows(Event.RECHECK) and (due_at is None or due_at > now):
        due_at = now
    events = add_record(row.provider_events, event)
    after = replace(row, version=row.version + 1, provider_events=events, due_at=due_at)
    return None if replace(after, version=row.version) == row else after


def on_undecided_end(
    row: JobRow, reported: ReportedState, outcome: LookupOutcome, *, policy: RetryPolicy
) -> Decision | None:
    """Escalate an end that an event contradicts, if the lookup does not decide it.

    The order may have changed or be gone, so that nothing can be compared. Returns None for a
    payment that succeeded: a late failure of an earlier try is common, and means nothing.
    """
    succeeded = row.status.is_finished and not policy.may_fail_later
    if not isinstance(outcome, Anomalous) or succeeded:
        return None
    reason = f"an event of the provider says {reported}, and a lookup does not decide it"
    reason = f"it is {row.status}, but {reason}: {outcome.reason}"
    changes = {"expires_at": None, "last_error": single_line(reason)}
    return Decision(event=Event.CONTRADICT, reason=reason, changes=changes, alert=True)


def on_late_answer(
    row: JobRow,
    policy: RetryPolicy,
    outcome: LookupOutcome,
    *,
    now: datetime,
    reported: ReportedState | None = None,
    note: str = "",
) -> Decision | None:
    """The decision for an ended or reviewed job that was looked up. None if it stays as it is.

    `reported` by an event, or `note` of an operator, is why it was. An event that is wrong, late or
    repeated leaves no trace; the lookup of an operator does, and decides nothing for a review.
    """
    if not note and ends_review(row) and isinstance(outcome, Succeeded):
        return decide_lookup(row, policy, outcome, now=now)
    if reported and (undecided := on_undecided_end(row, reported, outcome, policy=policy)):
        return undecided
    decision = on_lookup_of_ended(row, outcome, cause=note or "after an event of the provider")
    return decision if note or decision.event is Event.CONTRADICT else None
