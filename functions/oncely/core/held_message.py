"""A message of a job that the gate holds: the queue or the row keeps it until the gate opens."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from oncely.core.claims import Claim, has_conflict
from oncely.core.decisions import on_held
from oncely.core.early_message import EarlyMessage
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, WaitKind
from oncely.core.outcomes import Parked, RejectCause, Rejected
from oncely.core.results import Swapped
from oncely.core.surroundings import Hold

# The row waits with another message, which may have the same values. Until its claim tells, this
# one stays in the queue.
_OTHER_MESSAGE_DELAY: Final = timedelta(minutes=30)


@dataclass(frozen=True)
class HeldMessage:
    """One message, which claims nothing, so that nothing can be sent."""

    early: EarlyMessage

    def wait(self, hold: Hold, claim: Claim, *, can_nack: bool) -> Parked | Rejected | JobRow:
        """Keep the job in the queue or in its row. Returns the row if it already has the answer.

        A pause may last longer than the queue keeps a message, so the row keeps it.
        """
        held = Parked(
            job_key=claim.job_key,
            job_type=claim.job_type,
            until=hold.until,
            kind=WaitKind.GATE,
            reason=hold.reason,
            redeliver=can_nack and not hold.is_pause,
        )
        if held.redeliver:
            return held
        row = self.early.ensure_row(claim.now, hold.until, hold.reason)
        is_ready = row.allows(Event.PARK) and not row.runs_later(claim.now, claim.schedule_limit)
        if not is_ready or has_conflict(row, claim):
            return row
        if row.fingerprint is None and dict(row.message) != dict(claim.message):
            return self._wait_beside(held, claim, can_nack=can_nack)
        if decision := on_held(row, hold.reason, until=hold.until):
            after = decision.apply_to(row, now=claim.now, actor=self.early.actor)
            if not isinstance(self.early.store.swap(row, after), Swapped):
                return row
        return held

    def _wait_beside(self, held: Parked, claim: Claim, *, can_nack: bool) -> Parked | Rejected:
        if can_nack:
            return replace(held, until=claim.now + _OTHER_MESSAGE_DELAY, redeliver=True)
        reason = "another message waits under the same key"
        alerted = self.early.alerter.alert_conflict(claim.job_key, reason)
        return Rejected(
            cause=RejectCause.CONFLICT,
            reason=reason,
            job_key=claim.job_key,
            job_type=claim.job_type,
            alerted=alerted,
        )
