"""Treats a provider event as a hint: looks up sooner, or checks a result that it contradicts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from oncely.core.ask_and_record import Question
from oncely.core.effect_outcomes import LookupFailed
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.hints import (
    DropReason,
    HintAction,
    ReportedState,
    action_for_hint,
    after_event,
)
from oncely.core.job_row import EventMark, EventRecord, JobRow
from oncely.core.keys import MAX_ID_LENGTH, JobKey
from oncely.core.store import JobStore, Swapped
from oncely.core.surroundings import Hold
from oncely.core.table_guard import TableBlocked, TableOpen
from oncely.plugins.events import JobHint, ProviderEvent
from oncely.reconcile.reconciler import Reconciler

# Each retry lost a race with another writer of the row, of which there are few.
MAX_SAVES: Final = 5


def save_event(store: JobStore, row: JobRow, event: EventRecord) -> JobRow | None:
    """Save an event on the row that was read. Returns None if the row changed since."""
    after = after_event(row, event, event.at)
    if after is None:
        return row
    swapped = store.swap(row, after)
    return swapped.job if isinstance(swapped, Swapped) else None


def too_many_saves(key: JobKey) -> UnavailableError:
    """The event stays in the queue, and is received again."""
    return UnavailableError(f"the row of {key} changed {MAX_SAVES} times; its event is kept")


def ask_now(
    reconciler: Reconciler,
    row: JobRow,
    table: TableOpen,
    *,
    reported: ReportedState | None = None,
    deadline: datetime | None = None,
) -> None:
    """Look up a job because of an event. Raises UnavailableError if the event must be kept."""
    try:
        contract_type, message = reconciler.registry.parse_row(row)
    except InvalidInputError:
        return  # without its message, it is not known what to look up
    question = Question(
        contract=contract_type(reconciler.dependencies, row.provider),
        message=message,
        table=table,
        deadline=deadline,
        reported=reported,
    )
    asked = reconciler.inquirer().ask_and_record(row, question)
    if isinstance(asked, Hold):
        raise UnavailableError(asked.reason)
    if asked.lookup is not None and isinstance(asked.lookup.outcome, LookupFailed):
        raise UnavailableError(asked.lookup.outcome.reason)


@dataclass(frozen=True)
class EventHints:
    """Receives hints. A hint only makes its job due, unless a lookup confirms it."""

    reconciler: Reconciler

    def receive(
        self,
        hint: JobHint,
        event: ProviderEvent,
        *,
        provider: str,
        deadline: datetime | None = None,
    ) -> HintAction | DropReason:
        """Do what an event about a job allows. Returns what was done.

        Raises UnavailableError if the job table is blocked, or the provider cannot be asked now.
        """
        table = self.reconciler.guard.check()
        if isinstance(table, TableBlocked):
            raise UnavailableError(table.reason)
        if table.deployment != hint.deployment:
            return DropReason.OTHER_DEPLOYMENT
        store = self.reconciler.store
        for _ in range(MAX_SAVES):
            row = store.get(hint.job_key)
            action = action_for_hint(
                row, hint.reported, deployment=table.deployment, object_id=event.object_id
            )
            if row is not None and action is HintAction.CHECK_END:
                ask_now(self.reconciler, row, table, reported=hint.reported, deadline=deadline)
            if row is None or action is not HintAction.ASK_NOW:
                return action
            record = EventRecord(
                at=self.reconciler.clock.now(),
                provider=provider,
                name=event.type,
                mark=EventMark.HINT,
                ref=event.object_id[:MAX_ID_LENGTH],
            )
            if save_event(store, row, record):
                return action
        raise too_many_saves(hint.job_key)
