"""Treats an event as proof: saves it on the row, and ends or escalates the job."""

from dataclasses import dataclass

from oncely.core.errors import UnavailableError
from oncely.core.hints import DropReason, HintAction, claim_of_tag, ends_review, on_proof
from oncely.core.job_row import EventMark, EventRecord, JobRow
from oncely.core.lifecycle import Event
from oncely.core.table_guard import TableBlocked, TableOpen
from oncely.plugins.events import ClaimReport, ProviderEvent
from oncely.reconcile.event_hints import MAX_SAVES, ask_now, save_event, too_many_saves
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
            # Its outcome may be proved now, and nothing else may contradict it.
            ask_now(self.reconciler, row, table)
            return HintAction.CHECK_END
        return HintAction.KEEP
