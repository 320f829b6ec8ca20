"""The JSON bodies of bulk requests, validated."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from oncely.admin_page.repair_body import RequestBody
from oncely.core.errors import InvalidRequestError
from oncely.core.keys import JobKey
from oncely.core.repairs import Repair
from oncely.core.text import parse_time
from oncely.operate.bulk_repairer import BulkFilter, BulkRepairer, BulkSelection
from oncely.operate.bulk_runs import SelectedJob
from oncely.operate.job_lists import RowFilter


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
    repair: str
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

    def to_repair(self) -> Repair:
        if self.repair not in set(Repair):
            raise InvalidRequestError(f"unknown repair: use one of {', '.join(Repair)}")
        return Repair(self.repair)

    def to_selection(self, bulk: BulkRepairer) -> BulkSelection:
        """Select the requested jobs now."""
        repair = self.to_repair()
        if self.chosen is None:
            selection = bulk.select(repair, self.to_filter())
        else:
            jobs = [SelectedJob(JobKey(one.key), one.version) for one in self.chosen]
            selection = bulk.select_jobs(repair, jobs)
        if self.expected_jobs not in {None, len(selection.jobs)}:
            raise InvalidRequestError(
                f"{len(selection.jobs)} jobs match now, not {self.expected_jobs}: preview again"
            )
        return selection

    def to_filter(self) -> BulkFilter:
        return BulkFilter(
            status=self.status or None,
            job_type=self.job_type or None,
            since=_time(self.since),
            until=_time(self.until),
            rows=RowFilter(error=self.error or None, customer_id=self.customer_id or None),
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
