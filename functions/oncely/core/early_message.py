"""A message that arrived before its job may run: the row waits, and sends another one later."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from oncely.core.decisions import wait_for_run_at
from oncely.core.job_row import JobRow
from oncely.core.job_type import AnyJobType, AnyMessage
from oncely.core.lifecycle import WaitKind
from oncely.core.new_row import create_row, row_from_message
from oncely.core.outcomes import Parked
from oncely.core.results import Created, ForgedRow, Swapped
from oncely.core.store import JobStore
from oncely.core.surroundings import Alerter

_LOST_RACE: Final = "its row changed just now"


@dataclass(frozen=True, kw_only=True)
class EarlyMessage:
    """One message, which claims nothing, so that nothing can be sent."""

    store: JobStore
    alerter: Alerter
    contract_type: type[AnyJobType]
    message: AnyMessage
    run_at: datetime | None  # counts only if this message writes the row
    new_token: Callable[[], str]
    actor: str

    def ensure_row(
        self, now: datetime, due_at: datetime, reason: str, forged: ForgedRow | None = None
    ) -> JobRow:
        """The row of the job, which is written if there is none of ours.

        An existing row keeps its time.
        """
        new = row_from_message(
            self.contract_type,
            self.message,
            now=now,
            due_at=due_at,
            actor=self.actor,
            reason=reason,
            owner=self.new_token(),
            run_at=self.run_at,
        )
        created = create_row(self.store, self.alerter, new, forged)
        return created.job if isinstance(created, Created) else created.row

    def keep_time(self, row: JobRow, now: datetime) -> Parked:
        """Leave the row to its run time, when it is due and sends another message."""
        decision = wait_for_run_at(row)
        lost = decision is not None and not isinstance(
            self.store.swap(row, decision.apply_to(row, now=now, actor=self.actor)),
            Swapped,
        )
        return Parked(
            job_key=row.job_key,
            job_type=row.job_type,
            until=now if lost else row.run_at or now,
            kind=WaitKind.RETRY if lost else WaitKind.RUN_AT,
            reason=_LOST_RACE if lost else "it runs later",
            redeliver=lost,
        )
