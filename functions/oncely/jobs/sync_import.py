"""sync.import: page through the CRM and send one sync.contact for each version of a contact."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field

from oncely import (
    Anomalous,
    BusinessId,
    Call,
    EffectOutcome,
    InProgress,
    Job,
    JobKey,
    JobRow,
    NotSent,
    Succeeded,
    format_time,
    job_key,
    parse_time,
)
from oncely.jobs.sync_contact import SyncContact
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.interfaces import CrmPage, CrmRecord

# Time to read a page, send its ten batches of messages and save the cursor.
PAGE_TIME_BUDGET: Final = HUBSPOT.profile.request_timeout * 2


Timestamp = Annotated[
    str,
    Field(
        description="a time, such as 2026-11-16T03:00:00Z",
        json_schema_extra={"format": "date-time"},
    ),
    AfterValidator(lambda text: format_time(parse_time(text))),
]


@dataclass(frozen=True)
class ImportProgress:
    """The progress of an import, shown on the job."""

    after: str | None = None
    pages: int = 0
    seen: int = 0
    sent: int = 0

    @classmethod
    def from_row(cls, row: JobRow) -> Self:
        saved: Mapping[str, Any] = row.progress or {}
        return cls(**saved)

    def after_page(self, page: CrmPage) -> Self:
        seen, sent = self.seen + len(page.records), self.sent + len(page.records)
        return replace(self, after=page.after, pages=self.pages + 1, seen=seen, sent=sent)


class SyncImport(Job):
    """None; Oncely reads contacts from HubSpot, 100 at a time."""

    key = ("source", "batch_id")
    provider = HUBSPOT
    queue = "sync"
    safety = "natural"
    sends_to = ("sync",)
    example: ClassVar = {"source": "hubspot", "batch_id": "2026-11-16-nightly"}
    business_rows = "none; each contact becomes its own sync.contact job."
    when_finished = "every page was read once and every contact on it was sent."
    when_failed = "never."
    review_when = ("when HubSpot returns the same page repeatedly",)

    source: Literal["hubspot"]
    batch_id: BusinessId
    updated_since: Timestamp | None = None

    def subject_id(self) -> str:
        return self.batch_id

    @classmethod
    def keys_for_subject(cls, subject: str) -> tuple[JobKey]:
        """Derive the one key of a batch: HubSpot is the only source."""
        return (job_key(cls.job_type, "hubspot", subject),)

    @classmethod
    def success_summary(cls, row: JobRow) -> str:
        result = row.result or {}
        if "sent" not in result:
            return "Imported."  # an operator marked it
        return f"Imported: {result['sent']} contacts from {result.get('pages', 0)} pages."

    def execute(self, call: Call) -> EffectOutcome:
        """Continue after the last saved page. A page is saved once all of it was sent."""
        progress = ImportProgress.from_row(call.row)
        pages_before = progress.pages
        while call.has_time_for(PAGE_TIME_BUDGET):
            page = self._list_page(progress.after)
            if isinstance(page, NotSent):
                return page
            if page.after is not None and page.after == progress.after:
                return Anomalous(f"HubSpot's cursor does not advance from {page.after}")
            bodies = [self._contact(record).to_body() for record in page.records]
            outbox = self.tools.message_sender(self.queue)
            # One group, so that a large import does not delay the other messages of the queue.
            if not all(outbox.send(bodies, groups=[call.row.job_key] * len(bodies))):
                return NotSent("the queue did not accept every message of a page")
            progress = progress.after_page(page)
            if page.after is None:
                # Save no cursor after the last page: an empty one would start over.
                summary = f"{progress.sent} contacts sent from {progress.pages} pages"
                return Succeeded(summary, result=asdict(progress))
            call.save_progress(asdict(progress))
        if progress.pages == pages_before:
            return NotSent("not enough time was left for a page", retry_after=timedelta(0))
        return InProgress(f"out of time after {progress.pages} pages; the next run continues")

    def _list_page(self, after: str | None) -> CrmPage | NotSent:
        crm = self.tools.provider(HUBSPOT)
        if self.updated_since is None:
            return crm.list_contacts(after=after)
        return crm.list_changed(since=parse_time(self.updated_since), after=after)

    def _contact(self, record: CrmRecord) -> SyncContact:
        # The time of the version, so that it is the same job in every import.
        version = format_time(record.updated_at)
        return SyncContact(source=self.source, source_id=record.record_id, event_id=version)
