"""The moves that a decision can make: which fields each changes, and how long each waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.domain.effect_outcomes import Declined, StillOpen, Succeeded
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event
from oncely.domain.profiles import RetryPolicy
from oncely.domain.text import single_line

# A message that was sent is worked within this time, or the row is taken to have lost it.
MESSAGE_GRACE: Final = timedelta(minutes=15)
# Four waits of 4, 8, 16 and 32 minutes: five timeouts in a row are spread over an hour.
TIMEOUT_BACKOFF: Final = timedelta(minutes=4)
UNREACHABLE_BACKOFF: Final = timedelta(seconds=15)
MAX_BACKOFF: Final = timedelta(minutes=15)
# The longest limit of a provider is a day's.
MAX_RETRY_AFTER: Final = timedelta(hours=24)
# Handing a message back costs one of its few receives: a longer wait is the row's.
MAX_REDELIVERY_DELAY: Final = timedelta(hours=1)
PENDING_RECHECK_INTERVAL: Final = timedelta(minutes=1)
# One sweep has a row to itself for this long: a provider's slowest answer and the write after it.
SWEEP_HOLD: Final = timedelta(minutes=2)
# Telling a person takes at most this: a topic's three tries, and clocks that differ.
ALERT_TIMEOUT: Final = timedelta(seconds=30)
# A message that was given up is sent again after this; by then a deployment was rolled back.
DEAD_LETTER_RETRY_DELAY: Final = timedelta(minutes=30)
# An outage of ours shorter than this must not end as a mass of reviews.
DEAD_LETTER_ESCALATION_AFTER: Final = timedelta(hours=6)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One move along the table, with the fields it changes."""

    event: Event
    reason: str
    changes: Mapping[str, object] = field(default_factory=dict)
    alert: bool = False  # a person is told about this job
    credentials_rejected: bool = (
        False  # our side of the provider is broken for every job: one alarm, not many
    )
    resend_when_due: bool = False  # the wait is long: the row is due at its end and sends a message
    send_new_message: bool = False  # the job goes on with a new message; this one has done its part
    run_at: datetime | None = None  # when the job may be tried again, for a move back to ready

    def apply_to(self, job: Job, *, now: datetime, actor: str) -> Job:
        """The job after this decision; one that a person must hear of is due until it is told."""
        alert_changes = {"due_at": now} if self.alert else {}
        changes = {**self.changes, **alert_changes}
        return job.apply(self.event, now=now, actor=actor, reason=self.reason, **changes)


def finish(job: Job, outcome: Succeeded) -> Decision:
    """A definite yes, with its result."""
    return Decision(
        event=Event.CONFIRM,
        reason=outcome.reason,
        changes={
            "provider_ref": outcome.ref or job.provider_ref,
            "result": dict(outcome.result),
            **ended_fields(),
            "last_error": None,
        },
    )


def fail(job: Job, outcome: Declined) -> Decision:
    """A definite no, which is an end as well; one that was closed says why that was done."""
    closing: Mapping[str, Any] = job.closing or {}
    reason = f"{closing['reason']}; {outcome.reason}" if closing else outcome.reason
    result = {
        "code": closing.get("code", outcome.code),
        **closing.get("result", {}),
        **outcome.result,
    }
    return Decision(
        event=Event.DECLINE,
        reason=reason,
        changes={"result": result, **ended_fields(), "last_error": single_line(reason)},
    )


def closing_fields(outcome: StillOpen) -> dict[str, object]:
    """What a row keeps of a decline until what was prepared is closed."""
    closing = {
        "reason": single_line(outcome.reason),
        "code": outcome.code,
        "result": dict(outcome.result),
    }
    return {"closing": closing}


def ended_fields() -> dict[str, object]:
    """What every end changes; whether it owes something, and its expiry, is domain/proof.py's.

    Nobody sends any more, so the lease and the window of the key mean nothing from here on.
    """
    cleared = dict.fromkeys(("closing", "lease_until", "first_sent_at"))
    return {"timeouts": 0, "unreachable": 0, "paused_seconds": 0, **cleared}


def requeue(event: Event, reason: str, *, run_at: datetime, **changes: object) -> Decision:
    """The row may be claimed again, from `run_at` on."""
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


def mark_unknown(reason: str, now: datetime, *, due_at: datetime, **changes: object) -> Decision:
    """The owner itself does not know what happened; it sends nothing more, so its lease ends."""
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
    """Asked, and not known yet: look again later."""
    return Decision(
        event=Event.RECHECK,
        reason=reason,
        changes={"due_at": due_at, "last_error": single_line(reason), **changes},
    )


def escalate(reason: str, **changes: object) -> Decision:
    """No rule may decide: a person owns it, and it never expires."""
    kept = {name: value for name, value in changes.items() if value is not None}
    return Decision(
        event=Event.ESCALATE,
        reason=reason,
        changes={
            "expires_at": None,
            "last_error": single_line(reason),
            **kept,
        },
        alert=True,
    )


def backoff(first: timedelta, times: int, *, jitter: float, max_delay: timedelta) -> timedelta:
    """`first`, doubled each time, and up to a quarter more so that jobs do not march in step."""
    # 2**20 is past every limit in use; beyond, the number would only overflow.
    doubled: timedelta = first * 2 ** min(max(times - 1, 0), 20)
    return min(doubled, max_delay) * (1 + jitter / 4)


def retry_delay(timeouts: int, jitter: float) -> timedelta:
    """After a crash at once; after timeouts so that all of them are spread over an hour."""
    if timeouts == 0:
        return timedelta(0)
    return backoff(TIMEOUT_BACKOFF, timeouts, jitter=jitter, max_delay=timedelta(hours=2))


def max_age_exceeded(job: Job, policy: RetryPolicy, now: datetime) -> str | None:
    """Why a job is past its age limit; None: it is not."""
    if now - job.age_starts_at < policy.limits.max_age:
        return None
    return f"the job is older than {policy.limits.max_age}"
