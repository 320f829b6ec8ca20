"""Read-only queries for operators and support agents: search, lists, one job, counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from oncely.contracts.job import AnyJob, providers_of
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidInputError, InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.keys import MAX_KEY_LENGTH, JobKey, is_job_key
from oncely.core.lifecycle import Status
from oncely.core.text import format_time, support_text
from oncely.operate.console_links import ConsoleLinks
from oncely.operate.job_index import JobListEntry, UnreadableRow
from oncely.operate.job_lists import (
    ALL_JOBS,
    IN_PROGRESS,
    LISTS,
    JobFilter,
    JobLists,
    ListCursor,
)
from oncely.operate.job_view import JobView, build_view
from oncely.operate.verdicts import Verdict, verdicts

if TYPE_CHECKING:
    from oncely.app import App

# A long-time customer may have more. Questions are usually about the newest.
MAX_SEARCH_RESULTS: Final = 50
MAX_PAGE_SIZE: Final = 100
# A list of a rare job type may skip many others. The next page continues from there.
MAX_ROWS_READ: Final = 1000
# Every list view counts. Beyond this the page shows "1,000+", so that a count costs the same
# however many jobs there are.
MAX_COUNT: Final = 1_000
# Keys of one subject to read at once. Few subjects have more than one.
_KEYS_PER_LOOKUP: Final = 2
# How many index entries an export reads at most, even if the job type is rare.
MAX_ENTRIES_SCANNED: Final = 20_000


@dataclass(frozen=True, kw_only=True)
class SearchResults:
    """The jobs that match a text, newest first."""

    query: str
    jobs: tuple[JobView, ...]
    unreadable: tuple[UnreadableRow, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()  # what the providers could not resolve

    @property
    def is_empty(self) -> bool:
        return not self.jobs and not self.unreadable

    def to_json(self) -> dict[str, Json]:
        return {
            "query": self.query,
            **_rows_json(self.jobs, self.unreadable),
            "verdicts": [one.to_json() for one in self.verdicts],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class JobPage:
    """Some jobs of a list. `cursor` is None if there are no more."""

    jobs: tuple[JobView, ...]
    cursor: str | None
    unreadable: tuple[UnreadableRow, ...] = ()

    def to_json(self) -> dict[str, Json]:
        return {**_rows_json(self.jobs, self.unreadable), "cursor": self.cursor}


@dataclass(frozen=True, kw_only=True)
class JobCounts:
    """Counts for the top of the page. Names in `truncated` were counted only up to MAX_COUNT."""

    needs_review: int
    unknown: int
    pending: int
    failed_today: int
    # When the oldest unknown or overdue job entered that state.
    oldest_unresolved_at: datetime | None
    truncated: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        oldest = self.oldest_unresolved_at
        return {
            "needs_review": self.needs_review,
            "unknown": self.unknown,
            "pending": self.pending,
            "failed_today": self.failed_today,
            "oldest_unresolved_at": None if oldest is None else format_time(oldest),
            "truncated": list(self.truncated),
        }


@dataclass(frozen=True)
class JobQueries:
    """Reads indexes and single rows. Never scans the table."""

    app: "App"

    @cached_property
    def links(self) -> ConsoleLinks:
        """The links to the providers' consoles, with the settings of this deployment."""
        return ConsoleLinks.from_settings(self.app.settings)

    def search(self, text: str) -> SearchResults:
        query = text.strip()
        if not query:
            reason = "enter an order, a customer, a provider reference or a job key"
            raise InvalidRequestError(reason)
        if not _is_indexable(query):
            return SearchResults(query=query, jobs=())
        derived = self._jobs_by_derived_key(_spellings(query))
        return self.by_keys(query, self._matches(query, derived), known=derived)

    def by_keys(
        self,
        query: str,
        matches: Mapping[JobKey, str],
        *,
        known: Mapping[JobKey, JobRow | UnreadableRow] = MappingProxyType({}),
        notes: tuple[str, ...] = (),
    ) -> SearchResults:
        """Read the rows of these keys, each with what it was found by."""
        rows = {
            **known,
            **self.app.ports.job_index.get_many([key for key in matches if key not in known]),
        }
        jobs = ((key, row) for key, row in rows.items() if isinstance(row, JobRow))
        views = (self.view(job).with_match(matches[key]) for key, job in jobs)
        newest = sorted(views, key=lambda view: view.job.created_at, reverse=True)
        unreadable = _unreadable(rows.values())
        return SearchResults(
            query=query,
            jobs=tuple(newest),
            unreadable=unreadable,
            verdicts=self._verdicts(query, newest, unreadable),
            notes=notes,
        )

    def _verdicts(
        self, query: str, views: Sequence[JobView], unreadable: Sequence[UnreadableRow]
    ) -> tuple[Verdict, ...]:
        """The verdicts on the orders of these jobs, from all jobs of each order.

        A search by a charge finds neither its refund nor a second charge of the order.
        """
        found = {view.job.job_key: view.job for view in views}
        read = _spellings(query)
        subjects = {view.subject: None for view in views if view.subject not in {None, *read}}
        orders = [subject for subject in subjects if subject is not None]
        rows = self._jobs_by_derived_key(orders, known=found)
        keys = [
            key
            for subject in orders
            for key in self.app.ports.job_index.by_subject(subject, limit=MAX_SEARCH_RESULTS)
        ]
        rows |= self.app.ports.job_index.get_many(
            [key for key in keys if key not in {**found, **rows}]
        )
        others = [row for key, row in rows.items() if key not in found]
        more = [self.view(row) for row in others if isinstance(row, JobRow)]
        hidden = {row.job_key for row in (*unreadable, *_unreadable(others))}
        return verdicts([*views, *more], at=self.app.ports.clock.now(), unreadable=len(hidden))

    def list_page(
        self, wanted: JobFilter = ALL_JOBS, *, cursor: str | None = None, limit: int = 25
    ) -> JobPage:
        """One page of a list. A filter of rows may leave an empty page that has a cursor."""
        if not 1 <= limit <= MAX_PAGE_SIZE:
            raise InvalidRequestError(f"limit must be 1 to {MAX_PAGE_SIZE}, not {limit}")
        position = ListCursor.parse(cursor)
        entries = self._lists.entries(
            wanted.statuses,
            since=wanted.since,
            until=wanted.until,
            resume_at=position.at,
            job_type=wanted.job_type,
            limit=len(position.shown) + limit + 1,
        )
        taken, further = _take_page(entries, position, job_type=wanted.job_type, limit=limit)
        return self._page(taken, wanted, cursor=None if further is None else str(further))

    def iter_pages(self, wanted: JobFilter = ALL_JOBS) -> Iterator[JobPage]:
        """All pages of a list, read lazily. The last has a cursor if the scan limit was reached."""
        position, taken = ListCursor(), list[JobKey]()
        entries = self._lists.entries(
            wanted.statuses,
            since=wanted.since,
            until=wanted.until,
            job_type=wanted.job_type,
            limit=MAX_ENTRIES_SCANNED + 1,
        )
        for scanned, one in enumerate(entries):
            if scanned == MAX_ENTRIES_SCANNED:
                yield self._page(taken, wanted, cursor=str(position))
                return
            position = position.after(one)
            if wanted.job_type in {None, one.job_type}:
                taken.append(one.job_key)
            if len(taken) == MAX_PAGE_SIZE:
                yield self._page(taken, wanted)
                taken = []
        yield self._page(taken, wanted)

    def get(self, key: str) -> JobView | None:
        if not _is_indexable(key) or not is_job_key(key):
            return None
        job = self.app.ports.job_store().get(JobKey(key))
        return None if job is None else self.view(job)

    def counts(self) -> JobCounts:
        midnight = self.app.ports.clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0)
        today = midnight.replace(microsecond=0)
        pending, oldest = self._pending()
        counted = {
            "needs_review": self._count(Status.NEEDS_REVIEW, None),
            "unknown": self._count(Status.UNKNOWN, None),
            "pending": pending,
            "failed_today": self._count(Status.FAILED, today),
        }
        return JobCounts(
            **counted,
            oldest_unresolved_at=oldest,
            truncated=tuple(name for name, number in counted.items() if number >= MAX_COUNT),
        )

    def _page(
        self, keys: Sequence[JobKey], wanted: JobFilter, *, cursor: str | None = None
    ) -> JobPage:
        rows = self.app.ports.job_index.get_many(keys)
        found = [rows[key] for key in keys if key in rows]
        selected = (row for row in found if isinstance(row, JobRow) and wanted.selects(row))
        jobs = tuple(map(self.view, selected))
        return JobPage(jobs=jobs, cursor=cursor, unreadable=_unreadable(found))

    def _matches(self, query: str, derived: Iterable[JobKey]) -> dict[JobKey, str]:
        finder = self.app.ports.job_index
        matches: dict[JobKey, str] = {}
        if is_job_key(query):
            matches[JobKey(query)] = "job key"
        for key in derived:
            matches.setdefault(key, "order")
        for subject in _spellings(query):
            for key in finder.by_subject(subject, limit=MAX_SEARCH_RESULTS):
                matches.setdefault(key, "order")
        for key in finder.by_customer(query, limit=MAX_SEARCH_RESULTS):
            matches.setdefault(key, "customer")
        for key in finder.by_reference(query, limit=MAX_SEARCH_RESULTS):
            matches.setdefault(key, "provider reference")
        return matches or self._matches_by_record(query)

    def _matches_by_record(self, query: str) -> dict[JobKey, str]:
        """The jobs of a record, which is named by its source and the id that it has there."""
        return {
            key: f"{plugin.profile.name} id"
            for plugin in providers_of(self.app.registry)
            for key in self.app.ports.job_index.by_subject(
                f"{plugin.name}#{query}", limit=MAX_SEARCH_RESULTS
            )
        }

    def _jobs_by_derived_key(
        self, subjects: Iterable[str], *, known: Mapping[JobKey, JobRow] = MappingProxyType({})
    ) -> dict[JobKey, JobRow | UnreadableRow]:
        """The rows whose keys are derived from a subject. Stops at the first missing row."""
        found: dict[JobKey, JobRow | UnreadableRow] = {}
        remaining = [
            _keys_for_subject(contract_type, subject)
            for contract_type in self.app.registry
            for subject in subjects
        ]
        while remaining:
            tried = [(keys, list(islice(keys, _KEYS_PER_LOOKUP))) for keys in remaining]
            keys = [key for _, some in tried for key in some]
            read = self.app.ports.job_index.get_many([key for key in keys if key not in known])
            rows = {**read, **{key: known[key] for key in keys if key in known}}
            remaining = [keys for keys, some in tried if rows.keys() & set(some)]
            found |= rows
        return found

    def view(self, job: JobRow) -> JobView:
        """The view of a row that was read."""
        return build_view(job, self.app.registry, now=self.app.ports.clock.now(), links=self.links)

    def _count(self, status: Status, since: datetime | None) -> int:
        return self.app.ports.job_index.count((status,), since=since, limit=MAX_COUNT)

    def _pending(self) -> tuple[int, datetime | None]:
        """The number of jobs in progress, and since when the oldest is overdue or unknown."""
        counted, due_at = self._lists.count_due(LISTS[IN_PROGRESS], limit=MAX_COUNT)
        unknown = self.app.ports.job_index.by_status((Status.UNKNOWN,), oldest_first=True)
        waiting = [one.at for one in islice(unknown, 1)]
        if due_at is not None and due_at <= self.app.ports.clock.now():
            waiting.append(due_at)
        return counted, min(waiting, default=None)

    @property
    def _lists(self) -> JobLists:
        return JobLists(self.app.ports)


def _unreadable(rows: Iterable[JobRow | UnreadableRow]) -> tuple[UnreadableRow, ...]:
    return tuple(row for row in rows if isinstance(row, UnreadableRow))


def _rows_json(jobs: Iterable[JobView], unreadable: Iterable[UnreadableRow]) -> dict[str, Json]:
    return {
        "jobs": [view.to_summary_json() for view in jobs],
        "unreadable": [
            {"job_key": row.job_key, "reason": support_text(row.reason)} for row in unreadable
        ],
    }


def _take_page(
    entries: Iterator[JobListEntry], start: ListCursor, *, job_type: str | None, limit: int
) -> tuple[list[JobKey], ListCursor | None]:
    taken: list[JobKey] = []
    new = (one for one in entries if not start.already_shown(one))
    position = start
    for read, one in enumerate(new):
        if len(taken) == limit or read == MAX_ROWS_READ:
            return taken, position
        position = position.after(one)
        if job_type in {None, one.job_type}:
            taken.append(one.job_key)
    return taken, None


def _spellings(query: str) -> tuple[str, ...]:
    """`order_18452`, `#18452` and `18452` mean the same order."""
    bare = query.removeprefix("#").removeprefix("order_").strip() or query
    return tuple(dict.fromkeys((query, bare, f"order_{bare}", f"#{bare}")))


def _keys_for_subject(contract_type: type[AnyJob], subject: str) -> Iterator[JobKey]:
    try:
        yield from contract_type.keys_for_subject(subject)
    except InvalidInputError:
        return


def _is_indexable(text: str) -> bool:
    """Whether any index could hold it. A lone surrogate cannot even be sent."""
    return len(text) <= MAX_KEY_LENGTH and not any("\ud800" <= one <= "\udfff" for one in text)
