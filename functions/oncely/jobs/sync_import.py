"""sync.import: page through the CRM and send one sync.contact for each record."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field

from oncely import (
    MAX_ID_LENGTH,
    MAX_MESSAGE_BYTES,
    Anomalous,
    Contract,
    Description,
    EffectCall,
    EffectOutcome,
    InProgress,
    Job,
    JobKey,
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
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.interfaces import CrmPage, CrmRecord

_BusinessId = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)]

# A page, its ten batches of messages and the cursor: no new page is begun with less time left.
PAGE_TIME_BUDGET: Final = HUBSPOT.profile.request_timeout * 2


def _normalize_time(text: str) -> str:
    return format_time(parse_time(text))


Timestamp = Annotated[
    str,
    Field(
        description="a time, such as 2026-11-16T03:00:00Z",
        json_schema_extra={"format": "date-time"},
    ),
    AfterValidator(_normalize_time),
]


class ImportMessage(Message):
    """Import every contact, or those that changed since a time, as one batch."""

    job: Literal["sync.import"]
    v: Literal[1]
    source: Literal["hubspot"]
    batch_id: _BusinessId
    updated_since: Timestamp | None = None


@dataclass(frozen=True)
class ImportProgress:
    """How far an import has come; people see it on the job."""

    after: str | None = None
    pages: int = 0
    seen: int = 0
    sent: int = 0

    @classmethod
    def from_job(cls, job: Job) -> Self:
        """What the last saved page left."""
        saved: dict[str, Any] = dict(job.progress or {})
        return cls(**saved)

    def after_page(self, page: CrmPage) -> Self:
        """One page further; all of it was sent."""
        count = len(page.records)
        return replace(
            self,
            after=page.after,
            pages=self.pages + 1,
            seen=self.seen + count,
            sent=self.sent + count,
        )

    def to_json(self) -> dict[str, Json]:
        """What the row keeps."""
        return {"after": self.after, "pages": self.pages, "seen": self.seen, "sent": self.sent}


class SyncImport(Contract[ImportMessage, ImportMessage]):
    """Imports contacts page by page; see `words` for what that means."""

    job_type = "sync.import"
    message = ImportMessage
    example = ImportMessage.model_construct(
        job="sync.import",
        v=1,
        source="hubspot",
        batch_id="2026-11-16-nightly",
    )
    policy = RetryPolicy(safety=RetrySafety.NATURAL, profile=HUBSPOT.profile)
    resources = Resources(queue="sync", providers=(HUBSPOT,), sends_to=("sync",))
    description = Description(
        effect="nothing; contacts are read from HubSpot, a hundred at a time.",
        business_rows="none itself: each contact becomes a sync.contact job of its own.",
        success="every page was read once and every contact on it was sent.",
        failure="there is none.",
        review_when=("when HubSpot gives the same page again and again",),
    )

    @classmethod
    def key(cls, message: ImportMessage) -> JobKey:
        """`sync.import:hubspot:<batch id>`."""
        return job_key(cls.job_type, message.source, message.batch_id)

    @classmethod
    def subject(cls, message: ImportMessage) -> str:
        """People ask by the batch."""
        return message.batch_id

    @classmethod
    def keys_for_subject(cls, subject: str) -> Iterator[JobKey]:
        """There is one source."""
        return iter((job_key(cls.job_type, "hubspot", subject),))

    @classmethod
    def success_summary(cls, job: Job) -> str:
        """How much was read."""
        result = job.result or {}
        return f"Imported: {result.get('sent')} contacts from {result.get('pages')} pages."

    def precheck(self, message: ImportMessage) -> PrecheckResult[ImportMessage]:
        """There is nothing of ours to look at."""
        return Proceed(facts=message, values=message.to_dict())

    def execute(self, call: EffectCall[ImportMessage]) -> EffectOutcome:
        """Go on behind the last saved page; a page is saved only when all of it was sent."""
        progress = ImportProgress.from_job(call.job)
        pages_before = progress.pages
        while call.has_time_for(PAGE_TIME_BUDGET):
            page = self._list_page(call.facts, progress.after)
            if isinstance(page, NotSent):
                return page
            if page.after is not None and page.after == progress.after:
                return Anomalous(f"HubSpot's cursor does not move on from {page.after}")
            bodies = [_message_body(call.facts.source, record) for record in page.records]
            if not all(self.dependencies.message_sender(self.resources.queue).send(bodies)):
                return NotSent("the queue did not take every message of a page")
            progress = progress.after_page(page)
            if page.after is None:
                # Its end is what is saved: a cursor that points nowhere would begin anew.
                summary = f"{progress.sent} contacts sent from {progress.pages} pages"
                return Succeeded(summary, result=progress.to_json())
            call.save_progress(progress.to_json())
        if progress.pages == pages_before:
            return NotSent("too little time was left for a page", retry_after=timedelta(0))
        return InProgress(f"short of time after {progress.pages} pages; goes on from there")

    def _list_page(self, message: ImportMessage, after: str | None) -> CrmPage | NotSent:
        crm = self.dependencies.provider(HUBSPOT)
        if message.updated_since is None:
            return crm.list_contacts(after=after)
        return crm.list_changed(since=parse_time(message.updated_since), after=after)


def _message_body(source: str, record: CrmRecord) -> str:
    """A message that carries the record, unless that is too large: then it will be fetched."""
    message: dict[str, Json] = {
        "job": "sync.contact",
        "v": 1,
        "source": source,
        "source_id": record.record_id,
        # The record's own time, so that the same version is the same job in every import.
        "event_id": format_time(record.updated_at),
    }
    whole = encode_message({**message, "record": dict(record.body)})
    return whole if len(whole.encode()) <= MAX_MESSAGE_BYTES else encode_message(message)
