"""The decisions that rules build on: which fields each changes, and how long each waits."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, assert_never

from oncely.core.effect_outcomes import (
    Anomalous,
    Declined,
    EffectOutcome,
    InProgress,
    Json,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    NotSent,
    Pending,
    StillOpen,
    Succeeded,
)
from oncely.core.job_row import CANCELLED_BY_OPERATOR, Decision, JobRow
from oncely.core.lifecycle import ENDING, Event, Status, WaitKind
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.core.text import format_duration, format_minute, single_line

# A message is processed within this time; after that, the row counts as having lost it.
MESSAGE_GRACE: Final = timedelta(minutes=15)
# None after the first timeout, then 9, 18 and 36 minutes: five timeouts are spread over an hour.
TIMEOUT_BACKOFF: Final = timedelta(minutes=9)
UNREACHABLE_BACKOFF: Final = timedelta(seconds=15)
MAX_BACKOFF: Final = timedelta(minutes=15)
# The longest rate limits of providers are per day.
MAX_RETRY_AFTER: Final = timedelta(hours=24)
# A redelivery costs one of the few receives, so the row handles longer waits.
MAX_REDELIVERY_DELAY: Final = timedelta(hours=1)
# If the message was sent just before the commit, its business rows exist by then.
FIRST_WAIT: Final = timedelta(seconds=5)
# A sweep runs each minute.
MIN_ROW_WAIT: Final = timedelta(minutes=1)
PENDING_RECHECK_INTERVAL: Final = timedelta(minutes=1)
# An effect that is still processing after a day takes days: a few lookups a day are enough.
MAX_PENDING_INTERVAL: Final = timedelta(hours=1)
SLOW_PENDING_AFTER: Final = timedelta(days=1)
SLOW_PENDING_INTERVAL: Final = timedelta(hours=6)
# How long a sweep has a row to itself: the slowest response of a provider, and the write.
SWEEP_HOLD: Final = timedelta(minutes=2)
# How long sending an alert may take: counting it, three attempts at SNS, and clock skew.
ALERT_TIMEOUT: Final = timedelta(seconds=45)
# A dead letter is resent after this time; a bad deployment is rolled back by then.
DEAD_LETTER_RETRY_DELAY: Final = timedelta(minutes=30)
# A shorter outage on our side must not send every job to review.
DEAD_LETTER_ESCALATION_AFTER: Final = timedelta(hours=6)


# Changes of every ending write. Nothing more is sent, so the lease and the key window end.
ENDED_FIELDS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "timeouts": 0,
        "unreachable": 0,
        "age_from": None,
        "closing": None,
        "lease_until": None,
        "first_sent_at": None,
        "key_answered": False,
    }
)


def park(
    row: JobRow,
    until: datetime,
    reason: str,
    kind: WaitKind,
    *,
    redeliver_at: datetime | None = None,
    **changes: object,
) -> Decision | None:
    """Let a ready row wait. This sets only when the row is looked at next, and for what it waits.

    Nothing is claimed, so no attempt is spent and nothing can be sent. The row sends a message when
    it is due, unless this one is redelivered earlier. Returns None if the row already waits so.
    """
    if (row.waits_for, row.due_at) == (kind, until):
        return None
    # The cause of a dead letter is the error before it.
    shown = {} if kind is WaitKind.DEAD_LETTER else {"last_error": single_line(reason)}
    return Decision(
        event=Event.PARK,
        reason=reason,
        changes={"due_at": until, "waits_for": kind, **shown, **changes},
        run_at=redeliver_at or until,
    )


def requeue(event: Event, reason: str, *, run_at: datetime, **changes: object) -> Decision:
    """Make the row claimable again from `run_at` on."""
    return Decision(
        event=event,
        reason=reason,
        changes={
            "lease_until": None,
            "due_at": run_at + MESSAGE_GRACE,
            "last_error": single_line(reason),
            **changes,
        },
        run_at=run_at,
    )


def continue_later(job: JobRow, outcome: InProgress, now: datetime) -> Decision:
    """Return the attempt, because progress is saved, and continue with a new message."""
    released = requeue(
        Event.RELEASE,
        outcome.reason,
        run_at=now,
        attempts=job.attempts - 1,
        first_sent_at=None,  # the progress covers everything sent so far
        key_scope=None,
        last_error=None,
    )
    return replace(released, send_new_message=True)


def mark_unknown(reason: str, now: datetime, *, due_at: datetime, **changes: object) -> Decision:
    """Mark the job unknown. The owner sends nothing more, so its lease ends now."""
    return Decision(
        event=Event.MARK_UNKNOWN,
        reason=reason,
        changes={
            "lease_until": now,
            "due_at": due_at,
            "last_error": single_line(reason),
            **changes,
        },
    )


def recheck_at(reason: str, *, due_at: datetime, **changes: object) -> Decision:
    """Look up again later."""
    return Decision(
        event=Event.RECHECK,
        reason=reason,
        changes={"due_at": due_at, "last_error": single_line(reason), **changes},
    )


def fail(job: JobRow, outcome: Declined) -> Decision:
    """End the job because the provider declined, or because what was open is closed."""
    closing: Mapping[str, Any] = job.closing or {}
    reason = f"{closing['reason']}; {outcome.reason}" if closing else outcome.reason
    result = {
        "code": closing.get("code", outcome.code),
        **closing.get("result", {}),
        **outcome.result,
    }
    cancelled = result["code"] == CANCELLED_BY_OPERATOR
    return Decision(
        event=Event.CLOSE if cancelled else Event.DECLINE,
        reason=reason,
        changes={"result": result, **ENDED_FIELDS, "last_error": single_line(reason)},
    )


def escalate(reason: str, **changes: object) -> Decision:
    """Send the job to review: an operator decides, and it never expires."""
    kept = {name: value for name, value in changes.items() if value is not None}
    return Decision(
        event=Event.ESCALATE,
        reason=reason,
        changes={"expires_at": None, "last_error": single_line(reason), **kept},
        alert=True,
    )


def on_not_there_yet(
    row: JobRow, policy: RetryPolicy, waits_for: str, *, now: datetime
) -> Decision | None:
    """Wait for the business rows, then escalate. Returns None if the row already waits.

    The write compares the owner, so the review of a job that was claimed since waits for nothing.
    """
    if row.was_claimed:
        return escalate(f"a worker has claimed it, and now it waits for {waits_for}")
    is_repeated = row.waits_for is WaitKind.BUSINESS_ROW
    began = row.since if is_repeated and row.since else now
    ends = began + policy.limits.grace_period
    if now >= ends:
        grace = format_duration(policy.limits.grace_period)
        return escalate(f"waited {grace} for {waits_for}", waits_for=WaitKind.BUSINESS_ROW)
    if is_repeated and row.due_at and now < row.due_at:
        return None
    # Wait as long again as it has waited. No provider is called, so jitter is not needed.
    waited = now - began
    longest = MAX_BACKOFF if waited < SLOW_PENDING_AFTER else MAX_PENDING_INTERVAL
    wait = min(max(waited, MIN_ROW_WAIT), longest, ends - now)
    return park(
        row,
        now + wait,
        f"waits for {waits_for}, until {format_minute(ends)}",
        WaitKind.BUSINESS_ROW,
        # The message comes back once. After that, the row resends it.
        redeliver_at=None if is_repeated else now + FIRST_WAIT,
        **exclude_from_age(row, wait, now),
    )


def wait_for_run_at(row: JobRow) -> Decision | None:
    """Make a scheduled row due when it may run. Returns None if it already is."""
    if row.run_at is None or row.due_at == row.run_at:
        return None
    return park(row, row.run_at, "it waits for its run time", WaitKind.RUN_AT)


def reschedule(row: JobRow, run_at: datetime, *, reason: str, now: datetime) -> Decision:
    """Set another run time, or `now` to run the job at once. Its age starts then."""
    due_at = run_at if run_at > now else now + MESSAGE_GRACE
    before = "" if row.run_at is None else f", instead of {format_minute(row.run_at)}"
    return Decision(
        event=Event.RESCHEDULE,
        reason=f"to run {format_minute(run_at) if run_at > now else 'now'}{before}: {reason}",
        changes={"run_at": run_at, "due_at": due_at, "waits_for": None},
    )


def on_unusable_secret(
    row: JobRow, reason: str, *, now: datetime, jitter: float
) -> Decision | None:
    """Keep a row that no worker can claim now. It is retried like an unreachable provider."""
    times = row.unreachable + 1
    delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
    return park(
        row,
        now + delay + MESSAGE_GRACE,  # only if the message is lost
        reason,
        WaitKind.SECRET,
        redeliver_at=now + delay,
        unreachable=times,
        **exclude_from_age(row, delay, now),
    )


def on_held(row: JobRow, reason: str, *, until: datetime) -> Decision | None:
    """Make a ready row wait for the gate. Returns None if it is already due: a sweep checks it."""
    if row.due_at is not None and row.due_at <= until:
        return None
    return park(row, until, reason, WaitKind.GATE)


def on_refused_message(row: JobRow, reason: str) -> Decision | None:
    """Keep a refused message as evidence. Returns None if the row's message is the right one."""
    if row.was_claimed or row.is_forged or not row.allows(Event.REFUSE):
        return None
    reason = f"a message was refused: {reason}"
    return Decision(event=Event.REFUSE, reason=reason, changes={"last_error": single_line(reason)})


def escalate_refused(row: JobRow, reason: str) -> Decision:
    """Escalate a row whose own message is refused. If nothing was sent, the right one runs."""
    return escalate(reason, waits_for=None if row.was_claimed else WaitKind.MESSAGE)


def exclude_from_age(job: JobRow, wait: timedelta, now: datetime) -> dict[str, object]:
    """Return the field of a wait for a provider or business rows, which does not count as age."""
    return {"age_from": job.age_starts_at(now) + wait}


def backoff(first: timedelta, times: int, *, jitter: float, max_delay: timedelta) -> timedelta:
    """Exponential backoff with up to 25 % jitter."""
    # 2**20 exceeds every limit in use; more would overflow.
    doubled: timedelta = first * 2 ** min(max(times - 1, 0), 20)
    return min(doubled, max_delay) * (1 + jitter / 4)


def pending_delay(elapsed: timedelta, *, jitter: float) -> timedelta:
    """Return the delay: as long as the elapsed time, up to an hour; after a day, a few hours."""
    if elapsed >= SLOW_PENDING_AFTER:
        return SLOW_PENDING_INTERVAL * (1 + jitter / 4)
    delay = min(max(elapsed, PENDING_RECHECK_INTERVAL), MAX_PENDING_INTERVAL)
    return delay * (1 + jitter / 4)


def recheck_pending(
    job: JobRow, policy: RetryPolicy, outcome: Pending, now: datetime, jitter: float
) -> Decision:
    """Look up less and less often. Processing does not count as age, but has a limit."""
    elapsed = now - job.status_since
    limit = outcome.may_take or policy.limits.max_processing_time
    if elapsed >= limit:
        return escalate(f"no decision after {format_duration(limit)}: {outcome.reason}")
    delay = pending_delay(elapsed, jitter=jitter)
    pause = exclude_from_age(job, delay, now)
    return recheck_at(outcome.reason, due_at=now + delay, unreachable=0, **pause)


def retry_delay(timeouts: int, jitter: float) -> timedelta:
    """No delay after a crash or one timeout. More timeouts in a row are spread over an hour."""
    if timeouts <= 1:
        return timedelta(0)
    return backoff(TIMEOUT_BACKOFF, timeouts - 1, jitter=jitter, max_delay=timedelta(hours=2))


def on_late_outcome(row: JobRow, outcome: Succeeded | Declined, *, fence: int) -> Decision:
    """Keep the definite outcome of a worker that lost its job, or escalate a contradiction."""
    return _keep_or_contradict(row, outcome, f"a late worker (claim {fence}) reports: ")


def on_lookup_of_ended(row: JobRow, outcome: LookupOutcome, *, cause: str) -> Decision:
    """Record what the provider says about an ended job, or escalate a contradiction."""
    if isinstance(outcome, Succeeded | Declined | StillOpen):
        return _keep_or_contradict(row, outcome, f"{cause}: ")
    return Decision(event=Event.NOTE, reason=f"{cause}: {outcome.reason}")


def _keep_or_contradict(
    row: JobRow, outcome: Succeeded | Declined | StillOpen, prefix: str
) -> Decision:
    reason = prefix + outcome.reason
    if not _contradicts(row, outcome):
        return Decision(event=Event.NOTE, reason=reason)
    return Decision(
        event=Event.CONTRADICT,
        reason=reason,
        changes={"expires_at": None, "last_error": single_line(reason)},
        alert=True,
    )


def on_forged_row(row: JobRow) -> Decision:
    """Review a row that is not ours. Nothing was sent for it, so a valid message may still run it.

    Its status is not believed: nothing is looked up, published or expired because of it.
    """
    events = (Event.ESCALATE, Event.CONTRADICT, Event.NOTE)
    reason = f"it was inserted as {row.status}: no worker claimed it, and Oncely did not write it"
    return Decision(
        event=next(event for event in events if row.allows(event)),
        reason=reason,
        changes={"expires_at": None, "last_error": reason, "waits_for": WaitKind.MESSAGE},
        alert=True,
    )


def save_progress(progress: Mapping[str, Json]) -> Decision:
    """Save a long job's progress. Only attempts since then count."""
    return Decision(
        event=Event.CHECKPOINT,
        reason="progress saved",
        changes={"progress": dict(progress), "attempts": 1, "timeouts": 0, "unreachable": 0},
    )


def save_reference(ref: str) -> Decision:
    """Save the provider reference before it is used."""
    return Decision(event=Event.CHECKPOINT, reason=f"prepared {ref}", changes={"provider_ref": ref})


def restore_reference(ref: str) -> Decision:
    """Save the reference of an earlier run that the row lost in a restore."""
    return Decision(
        event=Event.CHECKPOINT,
        reason=f"the row was restored without its reference; {ref} was found at the provider",
        changes={"provider_ref": ref},
    )


def on_business_conflict(  # what is known of the failed write
    job: JobRow,
    policy: RetryPolicy | None,
    intended: Decision,
    *,
    reason: str,
    now: datetime,
    is_permanent: bool = False,
) -> Decision:
    """The effect happened, but a business write failed: retry if that is safe, else escalate."""
    if intended.event not in ENDING:
        return intended  # the rows only show progress, and the job has not ended
    if is_permanent:
        policy = None  # another run would write the same values
    if (
        policy
        and policy.safety is RetrySafety.NATURAL
        and job.attempts < policy.limits.max_attempts
    ):
        # Another writer changed the row first. The next run decides on what it reads.
        event = Event.RELEASE if job.allows(Event.RELEASE) else Event.REQUEUE
        return requeue(event, f"the business rows changed: {reason}", run_at=now)
    if policy and policy.tolerates_row_changes and job.allows(Event.MARK_UNKNOWN):
        return mark_unknown(f"the business rows changed: {reason}", now, due_at=now)
    # Rows that conflict until the age limit still go to an operator.
    if (
        policy
        and policy.tolerates_row_changes
        and job.allows(Event.RECHECK)
        and not job.past_max_age(policy.limits.max_age, now)
    ):
        return recheck_at(f"the business rows changed: {reason}", due_at=now)
    kept = {
        name: intended.changes[name]
        for name in ("provider_ref", "result")
        if name in intended.changes
    }
    return escalate(f"{intended.reason}, but a business write failed: {reason}", **kept)


def keeps_key(job: JobRow, policy: RetryPolicy, absent: NotFound) -> bool:
    """Whether the next send must use the same key, although a lookup found nothing.

    An earlier request may still arrive. With the same key, the provider makes both one. A new key
    is safe once the provider replayed an answer under the old one, if the lookup proves that none
    can appear later, or if every request needs the saved reference of one prepared effect.
    """
    anchored = policy.leaves_open and job.provider_ref is not None
    settled = job.key_answered or absent.conclusive or anchored
    return policy.safety is RetrySafety.KEYED and not settled


def next_key(job: JobRow, policy: RetryPolicy, absent: NotFound) -> dict[str, object]:
    """The fields of the key for the next send, after a lookup found nothing."""
    if keeps_key(job, policy, absent):
        return {}
    changed = {"key_answered": False, "first_sent_at": None, "key_scope": None}
    return {"key_number": job.key_number + 1, **changed}


def absence_conclusive_at(job: JobRow, policy: RetryPolicy) -> datetime:
    """Return when a lookup that finds nothing proves absence: no earlier send can still arrive."""
    last_send = job.lease_until or job.updated_at
    lag = policy.profile.lookup_lag or timedelta(0)
    return last_send + policy.profile.request_timeout + lag


def _contradicts(row: JobRow, outcome: Succeeded | Declined | StillOpen) -> bool:
    match row.status:
        case Status.FINISHED:
            # The reference identifies the effect; other fields may differ between responses.
            return not isinstance(outcome, Succeeded) or outcome.ref not in {None, row.provider_ref}
        case Status.FAILED | Status.CANCELLED:
            return isinstance(outcome, Succeeded)
        case Status.READY | Status.STARTED | Status.UNKNOWN | Status.NEEDS_REVIEW:
            return False
        case unreachable:
            assert_never(unreachable)


def outcome_before_sending(outcome: LookupOutcome | NotSent) -> EffectOutcome | NotFound:
    """Return what a lookup means for a job that has sent nothing in this run."""
    if isinstance(outcome, LookupFailed):
        return NotSent(outcome.reason, retry_after=outcome.retry_after)
    if isinstance(outcome, LookupUnsupported):
        return Anomalous(
            f"the job table was restored, so it may have happened before; {outcome.reason}"
        )
    return outcome
