"""The JSON bodies of requests that change jobs or pauses, validated."""

from datetime import datetime
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from oncely.contracts.message import RunAt
from oncely.core.errors import InvalidRequestError
from oncely.core.keys import JobKey
from oncely.core.repairs import Repair
from oncely.core.text import MAX_REASON_LENGTH, parse_time
from oncely.gates.gate import PauseAction
from oncely.operate.bulk_repairer import BulkRepairer, BulkSelection, SelectedJob
from oncely.operate.job_lists import JobFilter
from oncely.operate.repair_request import RepairRequest


class RequestBody(BaseModel):
    """The body of a request that changes jobs or pauses."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    request_name: ClassVar[str] = "repair"

    @classmethod
    def parse(cls, body: str) -> Self:
        """Parse a body. Errors contain the field but never its value."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            errors = (
                f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_input=False)
            )
            reason = f"invalid {cls.request_name} request: {'; '.join(errors)}"[:500]
            raise InvalidRequestError(reason) from None


class RepairBody(RequestBody):
    """The job and the version the operator saw, the repair, and the reason."""

    key: str
    repair: Repair
    version: int
    reason: str
    reference: str | None = None
    run_at: RunAt | None = None
    dry_run: bool = False

    def to_request(self, *, actor: str) -> RepairRequest:
        return RepairRequest(
            key=JobKey(self.key),
            repair=self.repair,
            version=self.version,
            reason=self.reason,
            actor=actor,
            reference=(self.reference or "").strip() or None,
            run_at=self.run_at,
            dry_run=self.dry_run,
        )


class ResendBody(RequestBody):
    """The message as the operator edited it, and the reason."""

    request_name = "resend"
    name: str
    message: str  # JSON text, with addresses masked as they were shown
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_LENGTH // 2)]


class PauseBody(RequestBody):
    """What to pause or resume, and why."""

    request_name = "pause"
    target: str
    action: PauseAction
    reason: str = ""


class ChosenJob(BaseModel):
    """A job that the operator selected, as the page showed it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    key: str
    version: int


class BulkStartBody(RequestBody):
    """The repair, the filters or the chosen jobs, and the reason.

    A dry run only counts and shows examples. `expected_jobs` is the count that the operator
    confirmed.
    """

    request_name = "bulk"
    repair: Repair
    reason: str
    status: str | None = None
    job_type: str | None = None
    since: str | None = None
    until: str | None = None
    error: str | None = None
    customer_id: str | None = None
    chosen: list[ChosenJob] | None = None
    expected_jobs: int | None = None
    dry_run: bool = True  # nothing is changed unless the page says so

    def to_selection(self, bulk: BulkRepairer) -> BulkSelection:
        """Select the requested jobs now."""
        if self.chosen is None:
            selection = bulk.select(self.repair, self.to_filter())
        else:
            jobs = [SelectedJob(JobKey(one.key), one.version) for one in self.chosen]
            selection = bulk.select_jobs(self.repair, jobs)
        if self.expected_jobs not in {None, len(selection.jobs)}:
            raise InvalidRequestError(
                f"{len(selection.jobs)} jobs match now, not {self.expected_jobs}: preview again"
            )
        return selection

    def to_filter(self) -> JobFilter:
        return JobFilter(
            status=self.status or None,
            job_type=self.job_type or None,
            since=_time(self.since),
            until=_time(self.until),
            error=self.error or None,
            customer_id=self.customer_id or None,
        )


class BulkContinueBody(RequestBody):
    """The run, and how many of its jobs were processed before."""

    request_name = "bulk"
    run_id: str
    start: int = 0
    limit: int | None = None  # 0 only shows the run


def _time(text: str | None) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError as error:
        raise InvalidRequestError(str(error)) from None
