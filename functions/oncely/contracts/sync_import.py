"""sync.import: page through the CRM and send one sync.contact for each record."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field

from oncely.contract import (
    MAX_MESSAGE_BYTES,
    Call,
    Contract,
    Message,
    Needs,
    Proceed,
    Standing,
    Words,
    body_of,
)
from oncely.domain.answers import Answer, Done, NotSent, Odd, Unfinished
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_PART, JobKey, job_key
from oncely.domain.profiles import HUBSPOT, Safety, Terms
from oncely.domain.times import instant, time_text
from oncely.domain.writes import Json
from oncely.providers import CrmRecord, Page

Id = Annotated[str, Field(min_length=1, max_length=MAX_PART)]

# A page, its ten batches of messages and the cursor: no new page is begun with less time left.
PAGE_TIME: Final = HUBSPOT.request_timeout * 2


def _is_a_time(text: str) -> str:
    return time_text(instant(text))


Time = Annotated[
    str,
    Field(
        description="a time, such as 2026-11-16T03:00:00Z",
        json_schema_extra={"format": "date-time"},
    ),
    AfterValidator(_is_a_time),
]


class ImportMessage(Message):
    """Import every contact, or those that changed since a time, as one batch."""

    job: Literal["sync.import"]
    v: Literal[1]
    source: Literal["hubspot"]
    batch_id: Id
    updated_since: Time | None = None


@dataclass(frozen=True)
class Progress:
    """How far an import has come; people see it on the job."""

    after: str | None = None
    pages: int = 0
    seen: int = 0
    sent: int = 0

    @classmethod
    def of(cls, job: Job) -> Self:
        """What the last saved page left."""
        saved: dict[str, Any] = dict(job.progress or {})
        return cls(**saved)

    def past(self, page: Page) -> Self:
        """One page further; all of it was sent."""
        count = len(page.records)
        return replace(
            self,
            after=page.after,
            pages=self.pages + 1,
            seen=self.seen + count,
            sent=self.sent + count,
        )

    def as_json(self) -> dict[str, Json]:
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
    terms = Terms(safety=Safety.NATURAL, profile=HUBSPOT)
    needs = Needs(queue="sync", secrets=("hubspot",), sends_to=("sync",))
    words = Words(
        outside="nothing; contacts are read from HubSpot, a hundred at a time.",
        rows="none itself: each contact becomes a sync.contact job of its own.",
        success="every page was read once and every contact on it was sent.",
        failure="there is none.",
        alerts=("when HubSpot gives the same page again and again",),
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
    def keys_of(cls, subject: str) -> Iterator[JobKey]:
        """There is one source."""
        return iter((job_key(cls.job_type, "hubspot", subject),))

    @classmethod
    def done_words(cls, job: Job) -> str:
        """How much was read."""
        result = job.result or {}
        return f"Imported: {result.get('sent')} contacts from {result.get('pages')} pages."

    def check(self, message: ImportMessage) -> Standing[ImportMessage]:
        """There is nothing of ours to look at."""
        return Proceed(facts=message, values=message.as_json())

    def act(self, call: Call[ImportMessage]) -> Answer:
        """Go on behind the last saved page; a page is saved only when all of it was sent."""
        progress = Progress.of(call.job)
        started_at = progress.pages
        while call.has_time(PAGE_TIME):
            page = self._page(call.facts, progress.after)
            if isinstance(page, NotSent):
                return page
            if page.after is not None and page.after == progress.after:
                return Odd(f"HubSpot's cursor does not move on from {page.after}")
            bodies = [_body(call.facts.source, record) for record in page.records]
            if not all(self.tools.outbox(self.needs.queue).send(bodies)):
                return NotSent("the queue did not take every message of a page")
            progress = progress.past(page)
            if page.after is None:
                # Its end is what is saved: a cursor that points nowhere would begin anew.
                told = f"{progress.sent} contacts sent from {progress.pages} pages"
                return Done(told, result=progress.as_json())
            call.save(progress.as_json())
        if progress.pages == started_at:
            return NotSent("too little time was left for a page", retry_after=timedelta(0))
        return Unfinished(f"short of time after {progress.pages} pages; goes on from there")

    def _page(self, message: ImportMessage, after: str | None) -> Page | NotSent:
        crm = self.tools.crm()
        if message.updated_since is None:
            return crm.page(after=after)
        return crm.changed(since=instant(message.updated_since), after=after)


def _body(source: str, record: CrmRecord) -> str:
    """A message that carries the record, unless that is too large: then it will be fetched."""
    message: dict[str, Json] = {
        "job": "sync.contact",
        "v": 1,
        "source": source,
        "source_id": record.record_id,
        # The record's own time, so that the same version is the same job in every import.
        "event_id": time_text(record.updated_at),
    }
    whole = body_of({**message, "record": dict(record.body)})
    return whole if len(whole.encode()) <= MAX_MESSAGE_BYTES else body_of(message)
