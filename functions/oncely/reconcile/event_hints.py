"""Treats a provider event as a hint: looks up sooner, or checks a result that it contradicts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from oncely.core.decisions import on_lookup_of_ended
from oncely.core.effect_outcomes import Declined, LookupFailed
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.event_records import EventMark, EventRecord
from oncely.core.hints import (
    DropReason,
    HintAction,
    ReportedState,
    action_for_hint,
    after_event,
    on_undecided_end,
)
from oncely.core.job_row import Decision, JobRow
from oncely.core.keys import MAX_ID_LENGTH, JobKey
from oncely.core.lifecycle import Event
from oncely.core.profiles import EndpointGroup
from oncely.core.results import Swapped
from oncely.core.store import JobStore
from oncely.core.table_identity import TableBlocked, TableOpen
from oncely.plugins.events import JobHint, ProviderEvent
from oncely.reconcile.lookup_effect import lookup_effect
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
                self._check_end(row, hint.reported, table, deadline)
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

    def _check_end(
        self, row: JobRow, reported: ReportedState, table: TableOpen, deadline: datetime | None
    ) -> None:
        """Look up an ended job, and escalate it only if the provider contradicts its result."""
        try:
            contract_type, message = self.reconciler.registry.parse_row(row)
        except InvalidInputError:
            return  # without its message, it is not known what to look up
        contract = contract_type(self.reconciler.dependencies, row.provider)
        gate, lookups = self.reconciler.gate, EndpointGroup.LOOKUPS
        if hold := gate.enter(contract, lookups, deadline=deadline):
            raise UnavailableError(hold.reason)
        lookup = lookup_effect(row, contract, message, table)
        if isinstance(lookup.outcome, LookupFailed):
            raise UnavailableError(lookup.outcome.reason)
        may_fail_later = contract.policy.may_fail_later
        failed_later = row.status.is_finished and isinstance(lookup.outcome, Declined)
        frees = may_fail_later and failed_later and lookup.facts is not None

        def decide_on(ended: JobRow) -> Decision | None:
            if undecided := on_undecided_end(
                ended, reported, lookup.outcome, may_fail_later=may_fail_later
            ):
                return undecided
            cause = "after an event of the provider"
            decision = on_lookup_of_ended(ended, lookup.outcome, cause=cause)
            # An event that is wrong, late or repeated leaves no trace.
            return decision if decision.event is Event.CONTRADICT else None

        self.reconciler.decision_writer().write(
            row,
            decide_on,
            contract=contract,
            business_writes=lambda _, after: (
                contract.on_failure(lookup.facts, after) if frees else ()
            ),
        )
