"""Answers people's questions about jobs: one search box, lists, one job, counts; it only reads."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from oncely.contract import AnyContract
from oncely.domain.effect_outcomes import Json
from oncely.domain.errors import InvalidInputError, InvalidRequestError
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_KEY_LENGTH, JobKey, is_job_type
from oncely.domain.lifecycle import Status
from oncely.domain.text import format_time
from oncely.operate.job_lists import IN_PROGRESS, LISTS, JobLists, statuses_for_list
from oncely.operate.job_view import JobView, build_view
from oncely.operate.page_cursor import ListCursor
from oncely.ports import Clock, DueIndex, FinishedJobs, JobIndex, JobListEntry, JobStore
from oncely.registry import ContractRegistry

# A customer of ten years may have more; the newest are what is asked for.
MAX_SEARCH_RESULTS: Final = 50
MAX_PAGE_SIZE: Final = 100
# A list of one job type may have to go past many others: then it goes on with the next page.
MAX_ROWS_READ: Final = 1000
# Every view of a list counts. Beyond this a count says "more": nobody needs to know
# whether there are 1,000 or 40,000, and it must cost the same however many there are.
MAX_COUNT: Final = 1_000
# Keys of one business id that are looked for at once; few have more than a first one.
_KEYS_PER_LOOKUP: Final = 2
# Who takes a whole list goes past this many index entries at most, also of a rare job type.
MAX_ENTRIES_SCANNED: Final = 20_000


@dataclass(frozen=True, kw_only=True)
class SearchResults:
    """What a search gave, the newest first."""

    query: str
    jobs: tuple[JobView, ...]


@dataclass(frozen=True, kw_only=True)
class JobPage:
    """Some jobs of a list; `cursor` goes on, None: that was all."""

    jobs: tuple[JobView, ...]
    cursor: str | None


@dataclass(frozen=True, kw_only=True)
class JobCounts:
    """How things stand; a name in `more` was counted up to MAX_COUNT only."""

    needs_review: int
    unknown: int
    pending: int
    failed_today: int
    # Since when an outcome is unknown, or a job is due, for the longest time.
    oldest_unresolved_at: datetime | None
    truncated: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """What the page and the command show."""
        oldest = self.oldest_unresolved_at
        return {
            "needs_review": self.needs_review,
            "unknown": self.unknown,
            "pending": self.pending,
            "failed_today": self.failed_today,
            "oldest_unresolved_at": None if oldest is None else format_time(oldest),
            "more": list(self.truncated),
        }


@dataclass(frozen=True, kw_only=True)
class JobQueries:
    """Reads through indexes and by key; never the table."""

    registry: ContractRegistry
    store: JobStore
    job_index: JobIndex
    due_index: DueIndex
    finished_jobs: FinishedJobs
    clock: Clock

    def search(self, text: str) -> SearchResults:
        """Every job that a text may mean: a job key, an order, a customer, a reference."""
        query = text.strip()
        if not query:
            raise InvalidRequestError(
                "type an order, a customer, a provider's reference or a job key"
            )
        if not _is_indexable(query):
            return SearchResults(query=query, jobs=())
        derived = self._jobs_by_derived_key(_spellings(query))
        matches = self._matches(query, derived)
        rows = derived | self.job_index.get_many([key for key in matches if key not in derived])
        views = [self._view(job).with_match(matches[key]) for key, job in rows.items()]
        newest = sorted(views, key=lambda view: view.job.created_at, reverse=True)
        return SearchResults(query=query, jobs=tuple(newest))

    def list_page(
        self,
        *,
        status: str | None = None,
        job_type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        cursor: str | None = None,
        limit: int = 25,
    ) -> JobPage:
        """Some jobs of a list; `since` and `until` are of the times that it goes by."""
        if not 1 <= limit <= MAX_PAGE_SIZE:
            raise InvalidRequestError(f"a page holds 1 to {MAX_PAGE_SIZE} jobs, not {limit}")
        position = ListCursor.parse(cursor)
        statuses = statuses_for_list(status)
        _check_time_window(since, until)
        entries = self._lists.entries(
            statuses,
            since=since,
            until=until,
            resume_at=position.at,
            job_type=job_type,
            limit=len(position.shown) + limit + 1,
        )
        taken, further = _take_page(entries, position, job_type=job_type, limit=limit)
        return JobPage(
            jobs=tuple(self._current_rows(taken, statuses)),
            cursor=None if further is None else str(further),
        )

    def iter_pages(
        self,
        *,
        status: str | None = None,
        job_type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[JobPage]:
        """All jobs of a list, read as they are taken; the last page goes on if looking was cut."""
        statuses = statuses_for_list(status)
        _check_time_window(since, until)
        position, taken = ListCursor(), list[JobKey]()
        entries = self._lists.entries(
            statuses, since=since, until=until, job_type=job_type, limit=MAX_ENTRIES_SCANNED + 1
        )
        for scanned, one in enumerate(entries):
            if scanned == MAX_ENTRIES_SCANNED:
                yield JobPage(jobs=tuple(self._current_rows(taken, statuses)), cursor=str(position))
                return
            position = position.after(one)
            if job_type in {None, one.job_type}:
                taken.append(one.job_key)
            if len(taken) == MAX_PAGE_SIZE:
                yield JobPage(jobs=tuple(self._current_rows(taken, statuses)), cursor=None)
                taken = []
        yield JobPage(jobs=tuple(self._current_rows(taken, statuses)), cursor=None)

    def get(self, key: str) -> JobView | None:
        """One job; None: there is no row of it."""
        if not _is_indexable(key) or not _is_job_key(key):
            return None
        job = self.store.get(JobKey(key))
        return None if job is None else self._view(job)

    def counts(self) -> JobCounts:
        """How things stand; today is the day in UTC."""
        midnight = self.clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0)
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

    def _current_rows(
        self, keys: Sequence[JobKey], statuses: tuple[Status, ...]
    ) -> Iterator[JobView]:
        """The rows of a list; an index lags, and a row that has moved on is no longer in it."""
        rows = self.job_index.get_many(keys)
        found = (rows[key] for key in keys if key in rows)
        return (self._view(job) for job in found if job.status in statuses)

    def _matches(self, query: str, derived: Iterable[JobKey]) -> dict[JobKey, str]:
        """The keys that a text leads to, each with the first way it was found."""
        finder = self.job_index
        matches: dict[JobKey, str] = {}
        if _is_job_key(query):
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
        return matches

    def _jobs_by_derived_key(self, subjects: Iterable[str]) -> dict[JobKey, Job]:
        """The jobs whose keys follow from a business id, as long as each has a row."""
        found: dict[JobKey, Job] = {}
        remaining = [
            _keys_for_subject(contract_type, subject)
            for contract_type in self.registry
            for subject in subjects
        ]
        while remaining:
            tried = [(keys, list(islice(keys, _KEYS_PER_LOOKUP))) for keys in remaining]
            rows = self.job_index.get_many([key for _, some in tried for key in some])
            remaining = [keys for keys, some in tried if rows.keys() & set(some)]
            found |= rows
        return found

    def _view(self, job: Job) -> JobView:
        return build_view(job, self.registry, now=self.clock.now())

    def _count(self, status: Status, since: datetime | None) -> int:
        return self.job_index.count((status,), since=since, limit=MAX_COUNT)

    def _pending(self) -> tuple[int, datetime | None]:
        """How many jobs are in progress, and since when the oldest of them waits for its outcome.

        One that is not due yet waits for nobody, unless its outcome is unknown.
        """
        due = [one.at for one in islice(self._lists.due(LISTS[IN_PROGRESS]), MAX_COUNT)]
        unknown = self.job_index.by_status((Status.UNKNOWN,), oldest_first=True)
        late = [at for at in due[:1] if at <= self.clock.now()]
        waiting = [*late, *(one.at for one in islice(unknown, 1))]
        return len(due), min(waiting, default=None)

    @property
    def _lists(self) -> JobLists:
        return JobLists(
            job_index=self.job_index,
            due_index=self.due_index,
            finished_jobs=self.finished_jobs,
            clock=self.clock,
        )


def _check_time_window(since: datetime | None, until: datetime | None) -> None:
    """DynamoDB would refuse the other way round, in words that nobody understands."""
    if since is not None and until is not None and until < since:
        raise InvalidRequestError("the time window ends before it begins: swap the two times")


def _take_page(
    entries: Iterator[JobListEntry], start: ListCursor, *, job_type: str | None, limit: int
) -> tuple[list[JobKey], ListCursor | None]:
    """The next keys of a list, and where it goes on; None: it has ended."""
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
    """`order_18452`, `#18452` and `18452` mean the same, however the shop writes its ids."""
    bare = _strip_prefix(query)
    return tuple(dict.fromkeys((query, bare, f"order_{bare}", f"#{bare}")))


def _strip_prefix(query: str) -> str:
    return query.removeprefix("#").removeprefix("order_").strip() or query


def _keys_for_subject(contract_type: type[AnyContract], subject: str) -> Iterator[JobKey]:
    """The keys of a business id; none, if it cannot be part of one."""
    try:
        yield from contract_type.keys_for_subject(subject)
    except InvalidInputError:
        return


def _is_job_key(text: str) -> bool:
    """Whether it is written like a key, also of a job type that is not deployed any more."""
    job_type, separator, rest = text.partition(":")
    return bool(separator and rest) and is_job_type(job_type)


def _is_indexable(text: str) -> bool:
    """Whether any index could hold it; half a character cannot even be sent."""
    return len(text) <= MAX_KEY_LENGTH and not any(
        "\ud800" <= character <= "\udfff" for character in text
    )
