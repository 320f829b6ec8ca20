"""Decides the next transition of a job from the outcome of its effect or lookup."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, assert_never

from oncely.core.claims import Claim
from oncely.core.effect_outcomes import (
    Ambiguous,
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
from oncely.core.job_row import CANCELLED_BY_OPERATOR, RESOLVED_BY_OPERATOR, Decision, JobRow
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


def on_restored(job: JobRow, *, deployment: str, now: datetime) -> Decision:
    """What a restore of the table means for a job: one that has not ended becomes unknown."""
    # A row without a known claim belongs to this deployment as well. A history line has no error,
    # and an erased one no result; a row without any mark is forged.
    ours = {"deployment": job.deployment or deployment, "waits_for": None}
    if not job.unresolved:
        # A claim may be lost, so it is no longer certain that nothing was sent.
        return Decision(event=Event.NOTE, reason="restored from the history", changes=ours)
    reason = f"the job table was restored; it was {job.status}, so its outcome is looked up"
    # The time without the table does not count as age.
    times = {"lease_until": now, "due_at": now, "age_from": now}
    return Decision(
        event=Event.RESTORE,
        reason=reason,
        changes={**ours, **times, "owner": None, "last_error": single_line(reason)},
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
    """Return the field of a wait that a provider asks for, which does not count as age.

    The next run or answer cannot tell how long it waited. However often the wait is repeated, the
    age starts at its end at the latest.
    """
    return {"age_from": min(job.age_starts_at(now), now) + wait}


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
        changes={
            "expires_at": None,
            "last_error": reason,
            "waits_for": WaitKind.MESSAGE,
            "run_at": None,  # nor is its time
        },
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


def needs_closing(job: JobRow, policy: RetryPolicy) -> bool:
    """Whether something may still be open at the provider, so that the job must not fail yet."""
    return policy.leaves_open and job.provider_ref is not None


def close_then_fail(job: JobRow, *, reason: str, reference: str | None, now: datetime) -> Decision:
    """Have a worker close what is open at the provider. Only then does the job fail."""
    full_reason = reason if reference is None else f"{reason} (reference {reference})"
    result = {**(job.result or {}), **({"reference": reference} if reference else {})}
    closing = {"reason": single_line(full_reason), "code": RESOLVED_BY_OPERATOR, "result": result}
    return return_to_ready(full_reason, now, {"closing": closing}, event=Event.CLOSE_AND_FAIL)


def return_to_ready(
    reason: str, now: datetime, changes: Mapping[str, object], *, event: Event = Event.REOPEN
) -> Decision:
    """Have a worker run the job. An operator decided, so all counters and the age restart."""
    return requeue(
        event,
        reason,
        run_at=now,
        attempts=0,
        timeouts=0,
        unreachable=0,
        age_from=now,
        waits_for=None,
        **{"closing": None, **changes},
    )


def close_later(job: JobRow, outcome: StillOpen, now: datetime, jitter: float) -> Decision:
    """Return the job to ready: the next run only closes what this run could not close."""
    times = job.unreachable + 1
    delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
    is_rejected = outcome.close_failure is not None and outcome.close_failure.credentials_rejected
    return requeue(
        Event.RELEASE,
        _still_open_reason(outcome),
        run_at=now + delay,
        unreachable=times,
        waits_for=WaitKind.SECRET if is_rejected else None,
        **_closing_fields(job, outcome),
    )


_MAY_HAVE_HAPPENED: Final = "but an earlier request may have done it"


def keep_decline(job: JobRow, policy: RetryPolicy, outcome: Declined, now: datetime) -> Decision:
    """A decline of a re-send proves nothing about the earlier request: look that up first."""
    reason = f"{outcome.reason}; {_MAY_HAVE_HAPPENED}"
    if not policy.can_look_up:
        return escalate(f"{reason}, and {policy.profile.name} has no lookup for this effect")
    return mark_unknown(
        f"{reason}, so it is looked up", now, due_at=now, **_closing_fields(job, outcome)
    )


def _follows_send(job: JobRow, policy: RetryPolicy) -> bool:
    """Whether an earlier request may have had the effect, or may still have it.

    A lookup may have called it absent too early. Asking once more costs little, and a job that
    failed although its effect happened is wrong for good.
    """
    if policy.safety is RetrySafety.NATURAL or policy.leaves_open:
        return False
    return job.has_ambiguous_send or (policy.can_look_up and job.attempts > 1)


def _kept_decline(job: JobRow, policy: RetryPolicy) -> Mapping[str, Any] | None:
    """The decline that a lookup has to confirm. What stays open is closed by a worker instead."""
    return None if policy.leaves_open else job.closing


def hand_over_to_close(
    job: JobRow, policy: RetryPolicy, outcome: StillOpen, now: datetime
) -> Decision:
    """The reconciler only reads, so a worker closes it before the job fails."""
    if job.attempts >= policy.limits.max_attempts:
        return escalate(f"{job.attempts} attempts were made; now: {_still_open_reason(outcome)}")
    if age_reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(f"{age_reason}; now: {_still_open_reason(outcome)}")
    return requeue(
        Event.REQUEUE,
        _still_open_reason(outcome),
        run_at=now,
        unreachable=0,
        **_closing_fields(job, outcome),
    )


def _still_open_reason(outcome: StillOpen) -> str:
    return f"{outcome.reason}; still open at the provider"


def _closing_fields(job: JobRow, outcome: StillOpen | Declined) -> dict[str, object]:
    """The decline as the row keeps it until it is certain that nothing can follow it.

    An operator's decision stays: a cancelled job must not end as declined.
    """
    closing = job.closing or {
        "reason": single_line(outcome.reason),
        "code": outcome.code,
        "result": dict(outcome.result),
    }
    return {"closing": closing}


_UNANSWERED: Final = "but an earlier request had no answer, and its key is no longer safe"


def guard_before_effect(
    job: JobRow,
    policy: RetryPolicy,
    claim: Claim,
    *,
    now: datetime,
) -> Decision | None:
    """Why the owner must not perform the effect. Returns None if it may."""
    if escalation := escalate_if_other_deployment(job, policy, claim.deployment):
        return escalation
    if job.provider != claim.provider:
        names = f"its row names the provider {job.provider}, its business rows {claim.provider}"
        return escalate(names)
    if any(event.proves for event in job.provider_events):
        return escalate("a provider event proves that an earlier claim sent it")
    # This claim is already counted, so the last allowed attempt is `attempts`, not one less.
    if job.attempts > policy.limits.max_attempts:
        return escalate(f"{policy.limits.max_attempts} attempts were made without an outcome")
    if reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(reason)
    if job.closing is not None:
        return None  # closing is safe to repeat, and needs no key
    if job.has_ambiguous_send and not _can_resend(job, policy, key_scope=claim.key_scope, now=now):
        return escalate("an earlier send is still open and its key is no longer safe")
    return None


def escalate_if_other_deployment(
    job: JobRow, policy: RetryPolicy, deployment: str | None
) -> Decision | None:
    """Escalate a row of another deployment, such as one of a copied table.

    The other deployment may run it as well, and one effect would then end two jobs. Only a natural
    effect may be repeated. Returns None if the row is ours.
    """
    if job.deployment == deployment or policy.safety is RetrySafety.NATURAL:
        return None
    return escalate("its row belongs to another deployment, which may run it as well")


def decide_effect(
    job: JobRow, policy: RetryPolicy, outcome: EffectOutcome, *, now: datetime, jitter: float = 0.0
) -> Decision:
    """The decision of the owner, whose effect was performed or attempted.

    `jitter` is drawn by the caller from [0, 1), so that many jobs do not retry at once.
    """
    decision = _after_effect(job, policy, outcome, now, jitter)
    if decision.event is Event.ESCALATE and job.proofs:
        # An event came after the claim: the lookup reads it, and may not need an operator.
        return mark_unknown(decision.reason, now, due_at=now)
    return decision


def _after_effect(
    job: JobRow, policy: RetryPolicy, outcome: EffectOutcome, now: datetime, jitter: float
) -> Decision:
    match outcome:
        case Declined() if _follows_send(job, policy):
            return keep_decline(job, policy, outcome, now)
        case Succeeded() | Declined() | Anomalous():
            return _on_definite(job, outcome)
        case StillOpen():
            return close_later(job, outcome, now, jitter)
        case NotSent():
            return _release_unsent(job, outcome, now, jitter)
        case InProgress():
            return continue_later(job, outcome, now)
        case Pending() if policy.safety is RetrySafety.NATURAL:
            return requeue(Event.RELEASE, outcome.reason, run_at=now + PENDING_RECHECK_INTERVAL)
        case Pending():
            delay = PENDING_RECHECK_INTERVAL
            pause = exclude_from_age(job, delay, now)
            return mark_unknown(outcome.reason, now, due_at=now + delay, **pause)
        case Ambiguous() if policy.safety is RetrySafety.NATURAL:
            return _retry_natural(policy, outcome.reason, job.timeouts + 1, now, jitter)
        case Ambiguous(replayed=replayed):
            answered = {"key_answered": True} if replayed else {}
            timeouts = job.timeouts + 1
            return mark_unknown(outcome.reason, now, due_at=now, timeouts=timeouts, **answered)
        case unreachable:
            assert_never(unreachable)


def on_lease_expired(
    job: JobRow, policy: RetryPolicy, *, now: datetime, jitter: float = 0.0
) -> Decision:
    """The decision about a job whose owner is certainly gone, and recorded nothing."""
    reason = "the lease expired before the worker recorded an outcome"
    if policy.safety is RetrySafety.NATURAL:
        return _retry_natural(policy, reason, job.timeouts, now, jitter)
    # Keep the lease: the owner may have sent until its end.
    changes = {"due_at": now, "last_error": reason}
    return Decision(event=Event.MARK_UNKNOWN, reason=reason, changes=changes)


def decide_lookup(
    job: JobRow,
    policy: RetryPolicy,
    outcome: LookupOutcome,
    *,
    now: datetime,
    key_scope: str = "",
    jitter: float = 0.0,
) -> Decision:
    """The decision for a job whose outcome was not known, and was looked up."""
    match outcome:
        case Succeeded() | Declined() | Anomalous():
            return _on_definite(job, outcome)
        case StillOpen():
            return hand_over_to_close(job, policy, outcome, now)
        case NotFound():
            return _on_not_found(job, policy, outcome, now, key_scope, jitter)
        case LookupUnsupported():
            return _on_lookup_unsupported(job, policy, outcome, now, key_scope, jitter)
        case Pending():
            return recheck_pending(job, policy, outcome, now, jitter)
        case LookupFailed():
            return _on_lookup_failed(job, policy, outcome, now, jitter)
        case unreachable:
            assert_never(unreachable)


def _on_definite(job: JobRow, outcome: Succeeded | Declined | Anomalous) -> Decision:
    match outcome:
        case Succeeded():
            return _finish(job, outcome)
        case Declined():
            return fail(job, outcome)
        case Anomalous(ref=ref):
            ref = ref or job.provider_ref
            return escalate(outcome.reason, provider_ref=ref, result=outcome.result or None)
        case unreachable:
            assert_never(unreachable)


def _on_not_found(  # noqa: PLR0917  # every one of them decides
    job: JobRow,
    policy: RetryPolicy,
    outcome: NotFound,
    now: datetime,
    key_scope: str,
    jitter: float,
) -> Decision:
    conclusive_at = absence_conclusive_at(job, policy)
    if not outcome.conclusive and now < conclusive_at:
        return recheck_at(outcome.reason, due_at=conclusive_at)
    declined = _kept_decline(job, policy)
    if outcome.unproved:
        return escalate(f"{declined['reason']}; {outcome.reason}" if declined else outcome.reason)
    if declined:
        return fail(job, Declined(outcome.reason, declined["code"]))
    safe = _can_resend(job, policy, key_scope=key_scope, now=now)
    if keeps_key(job, policy, outcome) and not safe:
        return escalate(f"{outcome.reason}; {_UNANSWERED}")
    key = next_key(job, policy, outcome)
    return _requeue_within_limits(job, policy, outcome.reason, now, jitter, **key)


def _on_lookup_failed(
    job: JobRow, policy: RetryPolicy, outcome: LookupFailed, now: datetime, jitter: float
) -> Decision:
    if reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(f"{reason}; the last lookup: {outcome.reason}")
    if outcome.retry_after is not None:
        delay = _retry_after_delay(outcome.retry_after, jitter)
        pause = exclude_from_age(job, delay, now)
        return recheck_at(outcome.reason, due_at=now + delay, **pause)
    times = job.unreachable + 1
    delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
    return recheck_at(outcome.reason, due_at=now + delay, unreachable=times)


def _on_lookup_unsupported(  # noqa: PLR0917  # every one of them decides
    job: JobRow,
    policy: RetryPolicy,
    outcome: LookupUnsupported,
    now: datetime,
    key_scope: str,
    jitter: float,
) -> Decision:
    due_at = absence_conclusive_at(job, policy) + outcome.event_wait
    if now < due_at:
        # Operators need to read what went wrong, not that there is no lookup.
        return recheck_at(outcome.reason, due_at=due_at, last_error=job.last_error)
    if declined := _kept_decline(job, policy):
        return escalate(f"{declined['reason']}; {_MAY_HAVE_HAPPENED}, and {outcome.reason}")
    if policy.safety is RetrySafety.NATURAL:
        return _requeue_within_limits(job, policy, "safe to run again", now, jitter)
    if _can_resend(job, policy, key_scope=key_scope, now=now):
        reason = "resent under the same key, which the provider still remembers"
        return _requeue_within_limits(job, policy, reason, now, jitter)
    return escalate(f"it may have happened: {job.last_error or 'no response'}; {outcome.reason}")


def _can_resend(job: JobRow, policy: RetryPolicy, *, key_scope: str, now: datetime) -> bool:
    if policy.safety is RetrySafety.NATURAL:
        return True
    window = policy.profile.key_ttl
    if policy.safety is not RetrySafety.KEYED or window is None or job.first_sent_at is None:
        return False
    safe_until = job.first_sent_at + window - policy.profile.key_ttl_margin
    return job.key_scope == key_scope and now + policy.profile.max_run_time < safe_until


def _release_unsent(job: JobRow, outcome: NotSent, now: datetime, jitter: float) -> Decision:
    """Nothing was sent, so return the attempt and the key's first use."""
    times = job.unreachable + (outcome.held_until is None)
    changes: dict[str, object] = {"attempts": job.attempts - 1, "unreachable": times}
    if outcome.held_until is not None:
        delay = max(outcome.held_until - now, timedelta(0))
    elif outcome.retry_after is None:
        delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
    else:
        delay = _retry_after_delay(outcome.retry_after, jitter)
        changes |= exclude_from_age(job, delay, now)
    if not job.has_ambiguous_send:
        changes |= {"first_sent_at": None, "key_scope": None}
    if delay > MAX_REDELIVERY_DELAY or outcome.held_until is not None:
        changes["due_at"] = now + delay  # the row resends the message
    if outcome.held_until is not None:
        changes["waits_for"] = WaitKind.GATE
    elif outcome.credentials_rejected:
        changes["waits_for"] = WaitKind.SECRET
    return requeue(Event.RELEASE, outcome.reason, run_at=now + delay, **changes)


def _retry_after_delay(retry_after: timedelta, jitter: float) -> timedelta:
    """The wait that the provider asks for, with jitter if many jobs would resume together."""
    delay = min(retry_after, MAX_RETRY_AFTER)
    return delay + MAX_BACKOFF * jitter if delay > MAX_REDELIVERY_DELAY else delay


def _retry_natural(
    policy: RetryPolicy, reason: str, timeouts: int, now: datetime, jitter: float
) -> Decision:
    """Run a natural effect again instead of looking it up."""
    if timeouts >= policy.limits.max_consecutive_timeouts:
        return escalate(f"{timeouts} timeouts in a row; the last: {reason}")
    delay = retry_delay(timeouts, jitter)
    return requeue(Event.RELEASE, reason, run_at=now + delay, timeouts=timeouts)


def _requeue_within_limits(
    job: JobRow, policy: RetryPolicy, reason: str, now: datetime, jitter: float, **key: object
) -> Decision:
    """Requeue, unless a limit is reached. `key` has the fields of a new key."""
    if policy.safety is RetrySafety.AT_MOST_ONCE:
        return escalate(f"it may have happened: {job.last_error or 'no response'}; now: {reason}")
    if job.timeouts >= policy.limits.max_consecutive_timeouts:
        return escalate(f"{job.timeouts} timeouts in a row; now: {reason}")
    if job.attempts >= policy.limits.max_attempts:
        return escalate(f"{job.attempts} attempts were made; now: {reason}")
    if age_reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(f"{age_reason}; now: {reason}")
    changes: dict[str, object] = {"unreachable": 0, **key}
    delay = retry_delay(job.timeouts, jitter)
    if delay:
        # Longer than SQS can delay a message, so the row resends it when due.
        changes["due_at"] = now + delay
    return requeue(Event.REQUEUE, reason, run_at=now + delay, **changes)


def _finish(job: JobRow, outcome: Succeeded) -> Decision:
    """Mark the job finished, with its result."""
    return Decision(
        event=Event.CONFIRM,
        reason=outcome.reason,
        changes={
            "provider_ref": outcome.ref or job.provider_ref,
            "result": dict(outcome.result),
            **ENDED_FIELDS,
            "last_error": None,
        },
    )


def on_prerequisite_not_met(row: JobRow, reason: str) -> Decision | None:
    """Escalate a ready row whose prerequisite is not met. Returns None if it is not ready.

    Otherwise the row would be resent, refused and alerted about every few minutes.
    """
    return escalate(reason) if row.allows(Event.CLAIM) else None
