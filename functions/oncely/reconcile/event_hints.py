"""Treats a provider event as a hint: looks up sooner, or checks a result that it contradicts."""

from dataclasses import dataclass
from datetime import datetime

from oncely.core.decisions import on_lookup_of_ended
from oncely.core.effect_outcomes import Declined, LookupFailed
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.hints import (
    DropReason,
    HintAction,
    ReportedState,
    action_for_hint,
    on_undecided_end,
)
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event
from oncely.core.profiles import EndpointGroup
from oncely.core.table_identity import TableBlocked, TableOpen
from oncely.plugins.events import JobHint
from oncely.reconcile.lookup_effect import lookup_effect
from oncely.reconcile.reconciler import Reconciler


@dataclass(frozen=True)
class EventHints:
    """Receives hints. A hint changes only the due time, unless a lookup confirms it."""

    reconciler: Reconciler

    def receive(
        self, hint: JobHint, *, object_id: str, deadline: datetime | None = None
    ) -> HintAction | DropReason:
        """Do what an event about a job allows. Returns what was done.

        Raises UnavailableError if the job table is blocked, or the provider cannot be asked now.
        """
        table = self.reconciler.guard.check()
        if isinstance(table, TableBlocked):
            raise UnavailableError(table.reason)
        if table.deployment != hint.deployment:
            return DropReason.OTHER_DEPLOYMENT
        store, now = self.reconciler.store, self.reconciler.clock.now()
        row = store.get(hint.job_key)
        action = action_for_hint(
            row, hint.reported, deployment=table.deployment, object_id=object_id
        )
        if action is HintAction.ASK_NOW and not store.hint(
            hint.job_key, deployment=table.deployment, now=now
        ):
            return DropReason.NOT_NEEDED  # a newer hint, or the job moved on
        if action is HintAction.CHECK_END and row is not None:
            self._check_end(row, hint.reported, table, deadline)
        return action

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
        if undecided := on_undecided_end(
            row, reported, lookup.outcome, may_fail_later=may_fail_later
        ):
            self.reconciler.decision_writer().write(row, undecided, contract=contract)
            return
        decision = on_lookup_of_ended(row, lookup.outcome, cause="after an event of the provider")
        if decision.event is not Event.CONTRADICT:
            return  # an event that is wrong, late or repeated leaves no trace
        failed_later = row.status.is_finished and isinstance(lookup.outcome, Declined)
        frees = may_fail_later and failed_later and lookup.facts is not None
        self.reconciler.decision_writer().write(
            row,
            decision,
            contract=contract,
            business_writes=lambda after: contract.on_failure(lookup.facts, after) if frees else (),
        )
