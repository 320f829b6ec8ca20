"""The moves that a decision can make: which fields each changes, and how long each waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.domain.answers import Done, Refused, StillOpen
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event
from oncely.domain.profiles import Terms
from oncely.domain.text import one_line

# A message that was sent is worked within this time, or the row is taken to have lost it.
MESSAGE_GRACE: Final = timedelta(minutes=15)
# Four waits of 4, 8, 16 and 32 minutes: five timeouts in a row are spread over an hour.
TIMEOUT_BACKOFF: Final = timedelta(minutes=4)
UNREACHABLE_BACKOFF: Final = timedelta(seconds=15)
LONGEST_BACKOFF: Final = timedelta(minutes=15)
# The longest limit of a provider is a day's.
LONGEST_RETRY_AFTER: Final = timedelta(hours=24)
# Handing a message back costs one of its few receives: a longer wait is the row's.
LONGEST_HAND_BACK: Final = timedelta(hours=1)
PROCESSING_LOOK: Final = timedelta(minutes=1)
# One sweep has a row to itself for this long: a provider's slowest answer and the write after it.
LOOK_TIME: Final = timedelta(minutes=2)
# Telling a person takes at most this: a topic's three tries, and clocks that differ.
TELLING_TAKES: Final = timedelta(seconds=30)
# A message that was given up is sent again after this; by then a deployment was rolled back.
STRANDED_WAIT: Final = timedelta(minutes=30)
# An outage of ours shorter than this must not end as a mass of reviews.
OUTAGE_ALLOWED: Final = timedelta(hours=6)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One move along the table, with the fields it changes."""

    event: Event
    reason: str
    changes: Mapping[str, object] = field(default_factory=dict)
    alert: bool = False  # a person is told about this job
    alarm: bool = False  # our side of the provider is broken for every job: one alarm, not many
    row_resends: bool = False  # the wait is long: the row is due at its end and sends a message
    fresh_message: bool = False  # the job goes on with a new message; this one has done its part
    run_at: datetime | None = None  # when the job may be tried again, for a move back to ready

    def on(self, job: Job, *, now: datetime, actor: str) -> Job:
        """The job after this decision; one that a person must hear of is due until it is told."""
        told = {"due_at": now} if self.alert else {}
        changes = {**self.changes, **told}
        return job.apply(self.event, now=now, actor=actor, reason=self.reason, **changes)


def confirm(job: Job, answer: Done) -> Decision:
    """A definite yes, with its result."""
    return Decision(
        event=Event.CONFIRM,
        reason=answer.reason,
        changes={
            "provider_ref": answer.ref or job.provider_ref,
            "result": dict(answer.result),
            **ending(),
            "last_error": None,
        },
    )


def refuse(job: Job, answer: Refused) -> Decision:
    """A definite no, which is an end as well; one that was closed says why that was done."""
    why: Mapping[str, Any] = job.closing or {}
    reason = f"{why['reason']}; {answer.reason}" if why else answer.reason
    result = {"code": why.get("code", answer.code), **why.get("result", {}), **answer.result}
    return Decision(
        event=Event.REFUSE,
        reason=reason,
        changes={"result": result, **ending(), "last_error": one_line(reason)},
    )


def to_close(answer: StillOpen) -> dict[str, object]:
    """What a row keeps of a decline until what was prepared is closed."""
    why = {"reason": one_line(answer.reason), "code": answer.code, "result": dict(answer.result)}
    return {"closing": why}


def ending() -> dict[str, object]:
    """What every end changes; whether it owes something, and its expiry, is domain/proof.py's.

    Nobody sends any more, so the lease and the window of the key mean nothing from here on.
    """
    past = dict.fromkeys(("closing", "lease_until", "first_sent_at"))
    return {"timeouts": 0, "unreachable": 0, "paused_seconds": 0, **past}


def back_to_ready(event: Event, reason: str, *, run_at: datetime, **changes: object) -> Decision:
    """The row may be claimed again, from `run_at` on."""
    return Decision(
        event=event,
        reason=reason,
        changes={
            "lease_until": None,
            "due_at": run_at + MESSAGE_GRACE,
            "last_error": one_line(reason),
            **changes,
        },
        run_at=run_at,
    )


def lose(reason: str, now: datetime, *, due_at: datetime, **changes: object) -> Decision:
    """The owner itself does not know what happened; it sends nothing more, so its lease ends."""
    return Decision(
        event=Event.LOSE,
        reason=reason,
        changes={
            "lease_until": now,
            "due_at": due_at,
            "last_error": one_line(reason),
            **changes,
        },
    )


def wait(reason: str, *, due_at: datetime, **changes: object) -> Decision:
    """Asked, and not known yet: look again later."""
    return Decision(
        event=Event.WAIT,
        reason=reason,
        changes={"due_at": due_at, "last_error": one_line(reason), **changes},
    )


def escalate(reason: str, **changes: object) -> Decision:
    """No rule may decide: a person owns it, and it never expires."""
    kept = {name: value for name, value in changes.items() if value is not None}
    return Decision(
        event=Event.ESCALATE,
        reason=reason,
        changes={
            "expires_at": None,
            "last_error": one_line(reason),
            **kept,
        },
        alert=True,
    )


def backoff(first: timedelta, times: int, *, spread: float, longest: timedelta) -> timedelta:
    """`first`, doubled each time, and up to a quarter more so that jobs do not march in step."""
    # 2**20 is past every limit in use; beyond, the number would only overflow.
    doubled: timedelta = first * 2 ** min(max(times - 1, 0), 20)
    return min(doubled, longest) * (1 + spread / 4)


def retry_wait(timeouts: int, spread: float) -> timedelta:
    """After a crash at once; after timeouts so that all of them are spread over an hour."""
    if timeouts == 0:
        return timedelta(0)
    return backoff(TIMEOUT_BACKOFF, timeouts, spread=spread, longest=timedelta(hours=2))


def too_old(job: Job, terms: Terms, now: datetime) -> str | None:
    """Why a job is past its age limit; None: it is not."""
    if now - job.age_begins < terms.stop.age:
        return None
    return f"the job is older than {terms.stop.age}"
