"""A message that arrived before its job may run: the row waits, and sends another one later."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from oncely.contract import AnyContract
from oncely.domain.jobs import Job
from oncely.domain.schedule import on_early_message
from oncely.enqueue.new_row import row_from_message
from oncely.message import Message
from oncely.ports import Created, JobStore, Swapped
from oncely.run.outcomes import NotAttempted, Scheduled

_LOST_RACE: Final = "its row changed just now"


@dataclass(frozen=True, kw_only=True)
class EarlyMessage:
    """One message, which claims nothing, so that nothing can be sent."""

    store: JobStore
    contract_type: type[AnyContract]
    message: Message
    sent_at: datetime
    new_token: Callable[[], str]
    actor: str

    def ensure_row(self, now: datetime, due_at: datetime, reason: str) -> Job:
        """The row of the job, which is written if there is none."""
        new = row_from_message(
            self.contract_type,
            self.message,
            now=now,
            due_at=due_at,
            actor=self.actor,
            reason=reason,
            owner=self.new_token(),
            sent_at=self.sent_at,
        )
        created = self.store.create(new)
        return created.job if isinstance(created, Created) else created.row

    def keep_time(self, row: Job, now: datetime) -> Scheduled | NotAttempted:
        """Make the row wait for its run time, or for the one that this message sets."""
        fields, run_at = self.message.to_dict(), self.message.run_at
        decision = on_early_message(row, fields, run_at=run_at, sent_at=self.sent_at, now=now)
        if decision is not None:
            # Not decided again if the row changed: the change may be of a newer message.
            after = decision.apply_to(row, now=now, actor=self.actor)
            if not isinstance(self.store.compare_and_swap(row, after), Swapped):
                return self._retry(row, now, _LOST_RACE)
            row = after
            if not row.runs_later(now):
                return self._retry(row, now, "its run time was reached")
        until = row.due_at or now
        return Scheduled(job_key=row.job_key, job_type=row.job_type, until=until)

    @staticmethod
    def _retry(row: Job, now: datetime, reason: str) -> NotAttempted:
        return NotAttempted(job_key=row.job_key, job_type=row.job_type, until=now, reason=reason)
