"""Answers people's questions about jobs: one search box, lists, one job, counts; it only reads."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from oncely.contract import AnyContract
from oncely.domain.errors import BadInputError, InvalidRequestError
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_KEY, JobKey, is_job_type
from oncely.domain.lifecycle import Status
from oncely.domain.times import time_text
from oncely.domain.writes import Json
from oncely.ports import Clock, DueIndex, FinishedJobs, JobFinder, JobStore, Listed
from oncely.registry import Registry
from oncely.services.job_lists import IN_PROGRESS, LISTS, JobLists, statuses_of
from oncely.services.job_view import JobView, view_of
from oncely.services.page_cursor import Cursor

# A customer of ten years may have more; the newest are what is asked for.
MOST_FOUND: Final = 50
MOST_ON_A_PAGE: Final = 100
# A list of one job type may have to go past many others: then it goes on with the next page.
MOST_READ: Final = 1000
# Every view of a list counts. Beyond this a count says "more": nobody needs to know
# whether there are 1,000 or 40,000, and it must cost the same however many there are.
MOST_COUNTED: Final = 1_000
# Keys of one business id that are looked for at once; few have more than a first one.
_AT_ONCE: Final = 2
# Who takes a whole list goes past this many index entries at most, also of a rare job type.
MOST_LOOKED_AT: Final = 20_000


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search gave, the newest first."""

    query: str
    jobs: tuple[JobView, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some jobs of a list; `cursor` goes on, None: that was all."""

    jobs: tuple[JobView, ...]
    cursor: str | None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How things stand; a name in `more` was counted up to MOST_COUNTED only."""

    needs_review: int
    unknown: int
    pending: int
    failed_today: int
    # Since when an outcome is unknown, or a job is due, for the longest time.
    oldest_unresolved_at: datetime | None
    more: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """What the page and the command show."""
        oldest = self.oldest_unresolved_at
        return {
            "needs_review": self.needs_review,
            "unknown": self.unknown,
            "pending": self.pending,
            "failed_today": self.failed_today,
            "oldest_unresolved_at": None if oldest is None else time_text(oldest),
            "more": list(self.more),
        }


@dataclass(frozen=True, kw_only=True)
class Inspector:
    """Reads through indexes and by key; never the table."""

    registry: Registry
    store: JobStore
    finder: JobFinder
    index: DueIndex
    finished: FinishedJobs
    clock: Clock

    def find(self, text: str) -> Found:
        """Every job that a text may mean: a job key, an order, a customer, a reference."""
        query = text.strip()
        if not query:
            raise InvalidRequestError(
                "type an order, a customer, a provider's reference or a job key"
            )
        if not _can_be_an_id(query):
            return Found(query=query, jobs=())
        derived = self._derived(_spellings(query))
        ways = self._ways(query, derived)
        rows = derived | self.finder.rows([key for key in ways if key not in derived])
        views = [self._view(job).found(ways[key]) for key, job in rows.items()]
        newest = sorted(views, key=lambda view: view.job.created_at, reverse=True)
        return Found(query=query, jobs=tuple(newest))

    def page(
        self,
        *,
        status: str | None = None,
        job_type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        cursor: str | None = None,
        limit: int = 25,
    ) -> Page:
        """Some jobs of a list; `since` and `until` are of the times that it goes by."""
        if not 1 <= limit <= MOST_ON_A_PAGE:
            raise InvalidRequestError(f"a page holds 1 to {MOST_ON_A_PAGE} jobs, not {limit}")
        place = Cursor.of(cursor)
        statuses = statuses_of(status)
        _must_be_a_window(since, until)
        entries = self._lists.entries(
            statuses,
            since=since,
            until=until,
            behind=place.at,
            job_type=job_type,
            limit=len(place.shown) + limit + 1,
        )
        taken, further = _taken(entries, place, job_type=job_type, limit=limit)
        return Page(
            jobs=tuple(self._still_there(taken, statuses)),
            cursor=None if further is None else str(further),
        )

    def every(
        self,
        *,
        status: str | None = None,
        job_type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Page]:
        """All jobs of a list, read as they are taken; the last page goes on if looking was cut."""
        statuses = statuses_of(status)
        _must_be_a_window(since, until)
        place, taken = Cursor(), list[JobKey]()
        entries = self._lists.entries(
            statuses, since=since, until=until, job_type=job_type, limit=MOST_LOOKED_AT + 1
        )
        for looked_at, one in enumerate(entries):
            if looked_at == MOST_LOOKED_AT:
                yield Page(jobs=tuple(self._still_there(taken, statuses)), cursor=str(place))
                return
            place = place.past(one)
            if job_type in {None, one.job_type}:
                taken.append(one.job_key)
            if len(taken) == MOST_ON_A_PAGE:
                yield Page(jobs=tuple(self._still_there(taken, statuses)), cursor=None)
                taken = []
        yield Page(jobs=tuple(self._still_there(taken, statuses)), cursor=None)

    def show(self, key: str) -> JobView | None:
        """One job; None: there is no row of it."""
        if not _can_be_an_id(key) or not _is_a_key(key):
            return None
        job = self.store.get(JobKey(key))
        return None if job is None else self._view(job)

    def counts(self) -> Counts:
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
        return Counts(
            **counted,
            oldest_unresolved_at=oldest,
            more=tuple(name for name, number in counted.items() if number >= MOST_COUNTED),
        )

    def _still_there(
        self, keys: Sequence[JobKey], statuses: tuple[Status, ...]
    ) -> Iterator[JobView]:
        """The rows of a list; an index lags, and a row that has moved on is no longer in it."""
        rows = self.finder.rows(keys)
        found = (rows[key] for key in keys if key in rows)
        return (self._view(job) for job in found if job.status in statuses)

    def _ways(self, query: str, derived: Iterable[JobKey]) -> dict[JobKey, str]:
        """The keys that a text leads to, each with the first way it was found."""
        finder = self.finder
        ways: dict[JobKey, str] = {}
        if _is_a_key(query):
            ways[JobKey(query)] = "job key"
        for key in derived:
            ways.setdefault(key, "order")
        for subject in _spellings(query):
            for key in finder.by_subject(subject, most=MOST_FOUND):
                ways.setdefault(key, "order")
        for key in finder.by_customer(query, most=MOST_FOUND):
            ways.setdefault(key, "customer")
        for key in finder.by_reference(query, most=MOST_FOUND):
            ways.setdefault(key, "provider reference")
        return ways

    def _derived(self, subjects: Iterable[str]) -> dict[JobKey, Job]:
        """The jobs whose keys follow from a business id, as long as each has a row."""
        found: dict[JobKey, Job] = {}
        going = [_keys(kind, subject) for kind in self.registry for subject in subjects]
        while going:
            tried = [(keys, list(islice(keys, _AT_ONCE))) for keys in going]
            rows = self.finder.rows([key for _, some in tried for key in some])
            going = [keys for keys, some in tried if rows.keys() & set(some)]
            found |= rows
        return found

    def _view(self, job: Job) -> JobView:
        return view_of(job, self.registry, now=self.clock.now())

    def _count(self, status: Status, since: datetime | None) -> int:
        return self.finder.count((status,), since=since, most=MOST_COUNTED)

    def _pending(self) -> tuple[int, datetime | None]:
        """How many jobs are in progress, and since when the oldest of them waits for its outcome.

        One that is not due yet waits for nobody, unless its outcome is unknown.
        """
        due = [one.at for one in islice(self._lists.due(LISTS[IN_PROGRESS]), MOST_COUNTED)]
        unknown = self.finder.attention((Status.UNKNOWN,), oldest_first=True)
        late = [at for at in due[:1] if at <= self.clock.now()]
        waiting = [*late, *(one.at for one in islice(unknown, 1))]
        return len(due), min(waiting, default=None)

    @property
    def _lists(self) -> JobLists:
        return JobLists(
            finder=self.finder, index=self.index, finished=self.finished, clock=self.clock
        )


def _must_be_a_window(since: datetime | None, until: datetime | None) -> None:
    """DynamoDB would refuse the other way round, in words that nobody understands."""
    if since is not None and until is not None and until < since:
        raise InvalidRequestError("the time window ends before it begins: swap the two times")


def _taken(
    entries: Iterator[Listed], first: Cursor, *, job_type: str | None, limit: int
) -> tuple[list[JobKey], Cursor | None]:
    """The next keys of a list, and where it goes on; None: it has ended."""
    taken: list[JobKey] = []
    new = (one for one in entries if not first.has_shown(one))
    place = first
    for read, one in enumerate(new):
        if len(taken) == limit or read == MOST_READ:
            return taken, place
        place = place.past(one)
        if job_type in {None, one.job_type}:
            taken.append(one.job_key)
    return taken, None


def _spellings(query: str) -> tuple[str, ...]:
    """`order_18452`, `#18452` and `18452` mean the same, however the shop writes its ids."""
    bare = _bare(query)
    return tuple(dict.fromkeys((query, bare, f"order_{bare}", f"#{bare}")))


def _bare(query: str) -> str:
    return query.removeprefix("#").removeprefix("order_").strip() or query


def _keys(kind: type[AnyContract], subject: str) -> Iterator[JobKey]:
    """The keys of a business id; none, if it cannot be part of one."""
    try:
        yield from kind.keys_of(subject)
    except BadInputError:
        return


def _is_a_key(text: str) -> bool:
    """Whether it is written like a key, also of a job type that is not deployed any more."""
    job_type, separator, rest = text.partition(":")
    return bool(separator and rest) and is_job_type(job_type)


def _can_be_an_id(text: str) -> bool:
    """Whether any index could hold it; half a character cannot even be sent."""
    return len(text) <= MAX_KEY and not any("\ud800" <= letter <= "\udfff" for letter in text)
