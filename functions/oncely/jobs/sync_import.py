"""sync.import: page through the CRM and send one sync.contact for each version of a contact."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field

from oncely import (
    Anomalous,
    Contract,
    Description,
    EffectCall,
    EffectOutcome,
    InProgress,
    JobKey,
    JobRow,
    Json,
    Message,
    NotSent,
    PrecheckResult,
    Proceed,
    Resources,
    RetryPolicy,
    RetrySafety,
    Succeeded,
    encode_message,
    format_time,
    job_key,
    parse_time,
)
from oncely.jobs.tables import BusinessId
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


class ImportMessage(Message):
    """A request to import every contact, or those changed since a time, as one batch."""

    job: Literal["sync.import"]
    v: Literal[1]
    source: Literal["hubspot"]
    batch_id: BusinessId
    updated_since: Timestamp | None = None


@dataclass(frozen=True)
class ImportProgress:
    """The progress of an import, shown on the job."""

    after: str | None = None
    pages: int = 0
    seen: int = 0
    sent: int = 0

    @classmethod
    def from_job(cls, job: JobRow) -> Self:
        saved: Mapping[str, Any] = job.progress or {}
        return cls(**saved)

    def after_page(self, page: CrmPage) -> Self:
        seen, sent = self.seen + len(page.records), self.sent + len(page.records)
        return replace(self, after=page.after, pages=self.pages + 1, seen=seen, sent=sent)


class SyncImport(Contract[ImportMessage, ImportMessage]):
    """The job type that imports contacts page by page."""

    job_type = "sync.import"
    message = ImportMessage
    example = ImportMessage.model_construct(
        job="sync.import", v=1, source="hubspot", batch_id="2026-11-16-nightly"
    )
    policy = RetryPolicy(safety=RetrySafety.NATURAL, profile=HUBSPOT.profile)
    resources = Resources(queue="sync", providers=(HUBSPOT,), sends_to=("sync",))
    description = Description(
        effect="none; Oncely reads contacts from HubSpot, 100 at a time.",
        business_rows="none; each contact becomes its own sync.contact job.",
        success="every page was read once and every contact on it was sent.",
        failure="never.",
        review_when=("when HubSpot returns the same page repeatedly",),
    )

    @classmethod
    def key(cls, message: ImportMessage) -> JobKey:
        """Return `sync.import:hubspot:<batch id>`."""
        return job_key(cls.job_type, message.source, message.batch_id)

    @classmethod
    def subject(cls, message: ImportMessage) -> str:
        return message.batch_id

    @classmethod
    def keys_for_subject(cls, subject: str) -> Iterator[JobKey]:
        """Derive the one key of a batch: HubSpot is the only source."""
        return iter((job_key(cls.job_type, "hubspot", subject),))

    @classmethod
    def success_summary(cls, job: JobRow) -> str:
        result = job.result or {}
        if "sent" not in result:
            return "Imported."  # an operator marked it
        return f"Imported: {result['sent']} contacts from {result.get('pages', 0)} pages."

    def precheck(self, message: ImportMessage) -> PrecheckResult[ImportMessage]:
        """Proceed: an import has no business rows."""
        return Proceed(facts=message, values=message.to_dict())

    def execute(self, call: EffectCall[ImportMessage]) -> EffectOutcome:
        """Continue after the last saved page. A page is saved once all of it was sent."""
        progress = ImportProgress.from_job(call.job)
        pages_before = progress.pages
        while call.has_time_for(PAGE_TIME_BUDGET):
            page = self._list_page(call.facts, progress.after)
            if isinstance(page, NotSent):
                return page
            if page.after is not None and page.after == progress.after:
                return Anomalous(f"HubSpot's cursor does not advance from {page.after}")
            bodies = [_message_body(call.facts.source, record) for record in page.records]
            outbox = self.dependencies.message_sender(self.resources.queue)
            # One group, so that a large import does not delay the other messages of the queue.
            if not all(outbox.send(bodies, groups=[call.job.job_key] * len(bodies))):
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

    def _list_page(self, message: ImportMessage, after: str | None) -> CrmPage | NotSent:
        crm = self.dependencies.provider(HUBSPOT)
        if message.updated_since is None:
            return crm.list_contacts(after=after)
        return crm.list_changed(since=parse_time(message.updated_since), after=after)


def _message_body(source: str, record: CrmRecord) -> str:
    message: dict[str, Json] = {
        "job": "sync.contact",
        "v": 1,
        "source": source,
        "source_id": record.record_id,
        # The time of the version, so that it is the same job in every import.
        "event_id": format_time(record.updated_at),
    }
    return encode_message(message)
