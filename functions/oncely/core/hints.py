"""Hints: provider events that bring a lookup forward. They never decide the outcome.

Events can be late, repeated, out of order, forged, or of another deployment. So a hint can
only bring a lookup forward, and the lookup decides.
"""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from oncely.core.decide import decide_lookup
from oncely.core.decisions import on_lookup_of_ended
from oncely.core.effect_outcomes import Anomalous, LookupOutcome, Succeeded
from oncely.core.event_records import EventRecord, add_record
from oncely.core.job_row import Decision, JobRow
from oncely.core.lifecycle import Event
from oncely.core.profiles import RetryPolicy
from oncely.core.proofs import ends_review
from oncely.core.text import single_line


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
