"""Treats an event as proof: saves it on the row, and ends or escalates the job."""

from dataclasses import dataclass

from oncely.core.decide import decide_lookup
from oncely.core.effect_outcomes import LookupFailed, Succeeded
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.event_records import EventMark, EventRecord
from oncely.core.hints import DropReason, HintAction
from oncely.core.job_row import Decision, JobRow
from oncely.core.lifecycle import Event
from oncely.core.proofs import claim_of_tag, ends_review, on_proof
from oncely.core.table_identity import TableBlocked, TableOpen
from oncely.plugins.events import ClaimReport, ProviderEvent
from oncely.reconcile.event_hints import MAX_SAVES, save_event, too_many_saves
from oncely.reconcile.lookup_effect import lookup_effect
from oncely.reconcile.reconciler import Reconciler


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
        for _ in range(MAX_SAVES):
            row = self.reconciler.store.get(report.job_key)
            record = self._record(row, report, event, table, provider)
            if isinstance(record, DropReason):
                return record
            if row is not None and (saved := save_event(self.reconciler.store, row, record)):
                return self._act(saved, record, table)
        raise too_many_saves(report.job_key)

    def _record(
        self,
        row: JobRow | None,
        report: ClaimReport,
        event: ProviderEvent,
        table: TableOpen,
        provider: str,
    ) -> EventRecord | DropReason:
        """The event as the row of its claim keeps it, or why it does not."""
        if row is None:
            return DropReason.NO_JOB
        if row.deployment != table.deployment:
            return DropReason.OTHER_DEPLOYMENT
        if report.mark is not EventMark.PROOF and row.erasure_requested_at is not None:
            return DropReason.NOT_NEEDED  # its personal data was erased
        if (fence := claim_of_tag(row, report.tag, table.tag_key)) is None:
            return DropReason.OTHER_OBJECT
        return EventRecord(
            at=self.reconciler.clock.now(),
            provider=provider,
            name=event.type,
            mark=report.mark,
            fence=fence,
            ref=event.object_id,
            code=report.code,
        )

    def _act(self, row: JobRow, event: EventRecord, table: TableOpen) -> HintAction:
        """Do what the events of the row prove, which every later write of it has seen."""
        if row.allows(Event.MARK_UNKNOWN):
            return HintAction.WAIT  # a proof is compared with what its worker records
        if not event.proves:
            return HintAction.KEEP
        if on_proof(row):
            self.reconciler.decision_writer().write(row, on_proof)
            return HintAction.CHECK_END
        if row.allows(Event.RECHECK):
            return HintAction.ASK_NOW
        if ends_review(row):
            self._end_review(row, table)
            return HintAction.CHECK_END
        return HintAction.KEEP

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
        now, found = self.reconciler.clock.now(), outcome

        def decide_on(review: JobRow) -> Decision | None:
            if review.proofs != row.proofs:
                return None  # another event is handled by its own process
            return decide_lookup(review, contract.policy, found, now=now)

        self.reconciler.decision_writer().write(
            row,
            decide_on,
            contract=contract,
            outcome=outcome,
            business_writes=lambda event, after: contract.business_writes(
                event, facts, after, found
            ),
        )
