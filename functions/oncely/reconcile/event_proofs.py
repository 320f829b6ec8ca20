"""Treats an event as proof: saves it on the row, and ends or escalates the job."""

from dataclasses import dataclass
from typing import Final

from oncely.core.decide import decide
from oncely.core.effect_outcomes import LookupFailed, Succeeded
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.event_records import EventMark, EventRecord
from oncely.core.hints import DropReason, HintAction
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event
from oncely.core.proofs import claim_of_tag, ends_review, on_proof, with_event
from oncely.core.table_identity import TableBlocked, TableOpen
from oncely.plugins.events import ClaimReport, ProviderEvent
from oncely.reconcile.lookup_effect import lookup_effect
from oncely.reconcile.reconciler import Reconciler

# Each retry lost a race with another event of the same job, of which there are few.
_MAX_SAVES: Final = 5


@dataclass(frozen=True)
class EventProofs:
    """Receives a provider's reports about single claims."""

    reconciler: Reconciler

    def receive(
        self, report: ClaimReport, event: ProviderEvent, *, provider: str
    ) -> HintAction | DropReason:
        """Save the report, and do what it proves. Returns what was done.

        Raises UnavailableError if the job table is blocked, or a table cannot be read: the event
        stays in the queue, since a proof must not be lost.
        """
        table = self.reconciler.guard.check()
        if isinstance(table, TableBlocked):
            raise UnavailableError(table.reason)
        refusal = self._save(report, event, table, provider)
        if refusal is not None or report.mark is not EventMark.PROOF:
            return refusal or HintAction.KEEP
        # The row after the save: every later write of a review has seen the proof.
        row = self.reconciler.store.get(report.job_key)
        return DropReason.NO_JOB if row is None else self._act(row, table)

    def _save(
        self, report: ClaimReport, event: ProviderEvent, table: TableOpen, provider: str
    ) -> DropReason | None:
        """Save the report on the row of its claim. Returns None if it is there."""
        store = self.reconciler.store
        for _ in range(_MAX_SAVES):
            row = store.get(report.job_key)
            if row is None:
                return DropReason.NO_JOB
            if row.deployment != table.deployment:
                return DropReason.OTHER_DEPLOYMENT
            if report.mark is not EventMark.PROOF and row.erasure_requested_at is not None:
                return DropReason.NOT_NEEDED  # its personal data was erased
            if (fence := claim_of_tag(row, report.tag, table.tag_key)) is None:
                return DropReason.OTHER_OBJECT
            record = EventRecord(
                at=self.reconciler.clock.now(),
                provider=provider,
                name=event.type,
                mark=report.mark,
                fence=fence,
                ref=event.object_id,
                code=report.code,
            )
            if with_event(row, record) == row or store.save_event(row, record):
                return None
        raise UnavailableError(f"the events of {report.job_key} changed {_MAX_SAVES} times")

    def _act(self, row: JobRow, table: TableOpen) -> HintAction:
        now = self.reconciler.clock.now()
        if decision := on_proof(row):
            self.reconciler.decision_writer().write(row, decision)
            return HintAction.CHECK_END
        if row.allows(Event.RECHECK):
            self.reconciler.store.hint(row.job_key, deployment=row.deployment, now=now)
            return HintAction.ASK_NOW
        if ends_review(row):
            self._end_review(row, table)
            return HintAction.CHECK_END
        # Its worker still runs. Once it is done, the proof is compared with what it recorded.
        return HintAction.WAIT if row.allows(Event.MARK_UNKNOWN) else HintAction.KEEP

    def _end_review(self, row: JobRow, table: TableOpen) -> None:
        """End a review if its outcome is now proved and nothing else contradicts it."""
        try:
            contract_type, message = self.reconciler.registry.parse_row(row)
        except InvalidInputError:
            return  # an operator decides what this deployment cannot read
        contract = contract_type(self.reconciler.dependencies, row.provider)
        lookup = lookup_effect(row, contract, message, table)
        outcome, facts = lookup.outcome, lookup.facts
        if isinstance(outcome, LookupFailed):
            raise UnavailableError(outcome.reason)
        if not isinstance(outcome, Succeeded):
            return
        decision = decide(row, contract.policy, outcome, now=self.reconciler.clock.now())
        self.reconciler.decision_writer().write(
            row,
            decision,
            contract=contract,
            outcome=outcome,
            business_writes=lambda after: contract.business_writes(
                decision.event, facts, after, outcome
            ),
        )
