"""The next move of a job, given what its provider said: pure, total, read top to bottom."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from oncely.domain.answers import (
    Absent,
    Answer,
    CannotAsk,
    Done,
    NotSent,
    Odd,
    OwnerGone,
    Processing,
    Refused,
    StillOpen,
    Unclear,
    Unfinished,
    Unreachable,
)
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import ENDED, Event, Status
from oncely.domain.moves import (
    LONGEST_BACKOFF,
    LONGEST_HAND_BACK,
    LONGEST_RETRY_AFTER,
    PROCESSING_LOOK,
    UNREACHABLE_BACKOFF,
    Decision,
    back_to_ready,
    backoff,
    confirm,
    escalate,
    lose,
    refuse,
    retry_wait,
    to_close,
    too_old,
    wait,
)
from oncely.domain.profiles import Safety, Terms
from oncely.domain.text import one_line
from oncely.domain.writes import Json


def before_effect(
    job: Job, terms: Terms, *, scope: str, now: datetime, deployment: str | None = None
) -> Decision | None:
    """Whether a rule forbids the owner to act at all; None: go ahead."""
    if elsewhere := of_another_deployment(job, terms, deployment):
        return elsewhere
    # This claim is counted already: the last attempt allowed is `attempts`, not one less.
    if job.attempts > terms.stop.attempts:
        return escalate(f"{terms.stop.attempts} attempts were made without an outcome")
    if reason := too_old(job, terms, now):
        return escalate(reason)
    if job.closing is not None:
        return None  # closing twice does no harm, and needs no key
    if job.earlier_send_is_open and not _safe_to_send_again(job, terms, scope=scope, now=now):
        return escalate("an earlier send is still open and its key is no longer safe")
    return None


def of_another_deployment(job: Job, terms: Terms, deployment: str | None) -> Decision | None:
    """A row of another deployment, such as one of a copied table. Returns None if it is ours.

    Its keys and its payments are the other's, which may work on it as well: one effect would then
    end two jobs. Only a natural effect may be repeated here.
    """
    if job.deployment == deployment or terms.safety is Safety.NATURAL:
        return None
    return escalate("its row belongs to another deployment, which may work on it as well")


def decide(
    job: Job, terms: Terms, answer: Answer, *, now: datetime, scope: str = "", spread: float = 0.0
) -> Decision:
    """The next move for a job whose effect was tried, or whose provider was asked.

    `spread` is drawn by the caller from [0, 1): it keeps many jobs from coming back at once.
    """
    match answer:
        case Done():
            return confirm(job, answer)
        case Refused(code=code) if code in terms.stop.person_looks_at:
            return escalate(answer.reason, result=answer.result or None)
        case Refused():
            return refuse(job, answer)
        case StillOpen() if job.status is Status.STARTED:
            return _close_later(job, answer, now, spread)
        case StillOpen():
            return _hand_over_to_close(job, terms, answer, now)
        case Odd():
            return escalate(
                answer.reason,
                provider_ref=answer.ref or job.provider_ref,
                result=answer.result or None,
            )
        case _ if job.status is Status.STARTED:
            return _after_effect(job, terms, answer, now, spread)
        case _:
            return _after_asking(job, terms, answer, now, scope, spread)


def late_answer(row: Job, answer: Done | Refused, *, fence: int) -> Decision:
    """What a definite answer does that comes from a worker who lost its ownership."""
    told = f"a late worker (claim {fence}) reports: {answer.reason}"
    if row.status in ENDED and _contradicts(row, answer):
        return Decision(
            event=Event.CONTRADICT,
            reason=told,
            changes={
                "expires_at": None,
                "last_error": one_line(told),
            },
            alert=True,
        )
    return Decision(event=Event.NOTE, reason=told)


def progressed(progress: Mapping[str, Json]) -> Decision:
    """A long job came further: only the attempts since then count."""
    return Decision(
        event=Event.KEEP,
        reason="progress saved",
        changes={"progress": dict(progress), "attempts": 1, "timeouts": 0, "unreachable": 0},
    )


def prepared(ref: str) -> Decision:
    """The provider's reference, saved before it is acted on."""
    return Decision(
        event=Event.KEEP,
        reason=f"prepared {ref}",
        changes={"provider_ref": ref},
    )


def found_again(ref: str) -> Decision:
    """The reference of an earlier run, which the row had lost in a restore."""
    return Decision(
        event=Event.KEEP,
        reason=f"the row was restored without its reference; {ref} was found at the provider",
        changes={"provider_ref": ref},
    )


def local_rows_refuse(
    job: Job, terms: Terms | None, wanted: Decision, *, why: str, now: datetime
) -> Decision:
    """The effect is done, and our own rows do not take it: no loop, a person."""
    if terms and terms.safety is Safety.NATURAL and job.attempts < terms.stop.attempts:
        # Somebody else changed the row first; looking at it again decides anew.
        event = Event.RELEASE if job.status is Status.STARTED else Event.RETURN
        return back_to_ready(event, f"the local rows changed: {why}", run_at=now)
    if terms and terms.rows_may_move and job.status is Status.STARTED:
        return lose(f"the local rows changed: {why}", now, due_at=now)
    asked = job.status is Status.UNKNOWN
    # Rows that refuse for ever are for a person all the same.
    if terms and terms.rows_may_move and asked and not too_old(job, terms, now):
        return wait(f"the local rows changed: {why}", due_at=now)
    kept = {
        name: wanted.changes[name] for name in ("provider_ref", "result") if name in wanted.changes
    }
    return escalate(f"{wanted.reason}, but the local rows refuse: {why}", **kept)


def ask_not_before(job: Job, terms: Terms) -> datetime:
    """When "not there" begins to count: the last possible send has been seen through."""
    last_send = job.lease_until or job.updated_at
    lag = terms.profile.lookup_lag or timedelta(0)
    return last_send + terms.profile.request_timeout + lag


def _after_effect(job: Job, terms: Terms, answer: Answer, now: datetime, spread: float) -> Decision:
    """STARTED, and the effect gave no definite answer."""
    match answer:
        case NotSent():
            return _release_unsent(job, answer, now, spread)
        case Unfinished():
            return _go_on_later(job, answer, now)
        case Processing() if terms.safety is Safety.NATURAL:
            return back_to_ready(Event.RELEASE, answer.reason, run_at=now + PROCESSING_LOOK)
        case Processing():
            return lose(answer.reason, now, due_at=now + PROCESSING_LOOK)
        case _ if terms.safety is Safety.NATURAL:
            return _run_natural_again(job, terms, answer, now, spread)
        case OwnerGone():
            # The lease stays as it was: the owner may have sent until its very end.
            return Decision(
                event=Event.LOSE,
                reason=answer.reason,
                changes={"due_at": now, "last_error": one_line(answer.reason)},
            )
        case _:
            # Whatever else it is, we do not know.
            return lose(answer.reason, now, due_at=now, timeouts=job.timeouts + 1)


def _after_asking(  # noqa: PLR0917  # every one of them decides
    job: Job, terms: Terms, answer: Answer, now: datetime, scope: str, spread: float
) -> Decision:
    """UNKNOWN, and the provider was asked."""
    match answer:
        case Absent() if answer.proved or now >= ask_not_before(job, terms):
            return _return(job, terms, answer.reason, now, spread, key_number=job.key_number + 1)
        case Absent():
            return wait(answer.reason, due_at=ask_not_before(job, terms))
        case CannotAsk():
            return _cannot_ask(job, terms, answer, now, scope, spread)
        case _ if reason := too_old(job, terms, now):
            return escalate(f"{reason}; the last answer was: {answer.reason}")
        case Processing():
            return wait(answer.reason, due_at=now + PROCESSING_LOOK, unreachable=0)
        case Unreachable(retry_after=timedelta() as asked_for):
            pause = _asked_pause(asked_for, spread)
            return wait(answer.reason, due_at=now + pause, **_paused(job, pause))
        case _:
            times = job.unreachable + 1
            pause = backoff(UNREACHABLE_BACKOFF, times, spread=spread, longest=LONGEST_BACKOFF)
            return wait(answer.reason, due_at=now + pause, unreachable=times)


def _cannot_ask(  # noqa: PLR0917  # every one of them decides
    job: Job, terms: Terms, answer: CannotAsk, now: datetime, scope: str, spread: float
) -> Decision:
    if now < ask_not_before(job, terms):
        # What went wrong is what a person will want to read, not that nobody can be asked.
        due_at = ask_not_before(job, terms)
        return wait(answer.reason, due_at=due_at, last_error=job.last_error)
    if terms.safety is Safety.NATURAL:
        return _return(job, terms, "safe to run again", now, spread, key_number=job.key_number)
    if _safe_to_send_again(job, terms, scope=scope, now=now):
        reason = "sent again under the same key, which the provider still remembers"
        return _return(job, terms, reason, now, spread, key_number=job.key_number)
    return escalate(f"it may have happened: {job.last_error or 'no answer'}; {answer.reason}")


def _safe_to_send_again(job: Job, terms: Terms, *, scope: str, now: datetime) -> bool:
    if terms.safety is Safety.NATURAL:
        return True
    window = terms.profile.key_window
    if terms.safety is not Safety.KEYED or window is None or job.first_sent_at is None:
        return False
    safe_until = job.first_sent_at + window - terms.profile.key_margin
    return job.key_scope == scope and now + terms.profile.longest_run < safe_until


def _release_unsent(job: Job, answer: NotSent, now: datetime, spread: float) -> Decision:
    """Nothing was sent: the attempt is given back, and so is the key's first use."""
    times = job.unreachable + 1
    changes: dict[str, object] = {"attempts": job.attempts - 1, "unreachable": times}
    if answer.retry_after is None:
        pause = backoff(UNREACHABLE_BACKOFF, times, spread=spread, longest=LONGEST_BACKOFF)
    else:
        pause = _asked_pause(answer.retry_after, spread)
        changes |= _paused(job, pause)
    if not job.earlier_send_is_open:
        changes |= {"first_sent_at": None, "key_scope": None}
    row_resends = pause > LONGEST_HAND_BACK
    if row_resends:
        changes["due_at"] = now + pause
    released = back_to_ready(Event.RELEASE, answer.reason, run_at=now + pause, **changes)
    return replace(released, alarm=answer.alarm, row_resends=row_resends)


def _asked_pause(asked_for: timedelta, spread: float) -> timedelta:
    """The wait that a provider asks for; a long one ends for many jobs at the same moment."""
    pause = min(asked_for, LONGEST_RETRY_AFTER)
    return pause + LONGEST_BACKOFF * spread if pause > LONGEST_HAND_BACK else pause


def _paused(job: Job, pause: timedelta) -> dict[str, object]:
    """A wait that a provider asks for does not count as age."""
    return {"paused_seconds": job.paused_seconds + math.ceil(pause.total_seconds())}


def _close_later(job: Job, answer: StillOpen, now: datetime, spread: float) -> Decision:
    """Declined, and this run could not close it: the next one does, and does nothing else."""
    times = job.unreachable + 1
    pause = backoff(UNREACHABLE_BACKOFF, times, spread=spread, longest=LONGEST_BACKOFF)
    released = back_to_ready(
        Event.RELEASE, _open(answer), run_at=now + pause, unreachable=times, **to_close(answer)
    )
    return replace(released, alarm=answer.unsent is not None and answer.unsent.alarm)


def _hand_over_to_close(job: Job, terms: Terms, answer: StillOpen, now: datetime) -> Decision:
    """Whoever asks may not act: a worker closes it, and only then has the job failed."""
    if job.attempts >= terms.stop.attempts:
        return escalate(f"{job.attempts} attempts were made; now: {_open(answer)}")
    if why := too_old(job, terms, now):
        return escalate(f"{why}; now: {_open(answer)}")
    return back_to_ready(Event.RETURN, _open(answer), run_at=now, unreachable=0, **to_close(answer))


def _open(answer: StillOpen) -> str:
    return f"{answer.reason}; still open at the provider"


def _go_on_later(job: Job, answer: Unfinished, now: datetime) -> Decision:
    """Progress is saved: the attempt is given back, and a fresh message goes on from there."""
    released = back_to_ready(
        Event.RELEASE,
        answer.reason,
        run_at=now,
        attempts=job.attempts - 1,
        first_sent_at=None,  # what was sent so far is known, and part of the progress
        key_scope=None,
        last_error=None,
    )
    return replace(released, fresh_message=True)


def _run_natural_again(
    job: Job, terms: Terms, answer: Answer, now: datetime, spread: float
) -> Decision:
    """There is nothing to ask: a natural effect is simply run again."""
    timeouts = job.timeouts + isinstance(answer, Unclear)
    if timeouts >= terms.stop.timeouts_in_a_row:
        return escalate(f"{timeouts} timeouts in a row; the last: {answer.reason}")
    pause = retry_wait(timeouts, spread)
    return back_to_ready(Event.RELEASE, answer.reason, run_at=now + pause, timeouts=timeouts)


def _return(
    job: Job, terms: Terms, reason: str, now: datetime, spread: float, *, key_number: int
) -> Decision:
    """UNKNOWN to READY, unless a stop rule says that enough is enough."""
    if terms.safety is Safety.AT_MOST_ONCE:
        return escalate(f"it may have happened: {job.last_error or 'no answer'}; now: {reason}")
    if job.timeouts >= terms.stop.timeouts_in_a_row:
        return escalate(f"{job.timeouts} timeouts in a row; now: {reason}")
    if job.attempts >= terms.stop.attempts:
        return escalate(f"{job.attempts} attempts were made; now: {reason}")
    if why := too_old(job, terms, now):
        return escalate(f"{why}; now: {reason}")
    changes: dict[str, object] = {"unreachable": 0}
    if key_number != job.key_number:
        changes |= {"key_number": key_number, "first_sent_at": None, "key_scope": None}
    pause = retry_wait(job.timeouts, spread)
    if pause:
        # Longer than a queue can hold a message back: it is sent when the row falls due.
        changes["due_at"] = now + pause
    return back_to_ready(Event.RETURN, reason, run_at=now + pause, **changes)


def _contradicts(row: Job, answer: Done | Refused) -> bool:
    match answer:
        case Done():
            # The reference names the one effect; a request id, say, differs with every answer.
            other = answer.ref is not None and row.provider_ref != answer.ref
            return row.status is not Status.FINISHED or other
        case Refused():
            return row.status is not Status.FAILED
