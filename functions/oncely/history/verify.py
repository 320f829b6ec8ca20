"""Checks the history of every job in an archive, however large it is."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from oncely.history.checker import BrokenRule, check_history
from oncely.history.lines import HistoryLine

# What no rule asks about stays out of the file.
_PERSONAL: Final = frozenset({"message", "result", "customer_id", "subject"})
_LINES_PER_REPORT: Final = 1_000


def verify_history(
    lines: Iterable[HistoryLine], *, report: Callable[[int, int], None] = lambda *_: None
) -> Iterator[BrokenRule]:
    """Yield the rules that these lines break, job by job.

    The lines of a job are spread over the days of its life. SQLite sorts them in a file that it
    deletes itself, so memory holds one job. `report` gets the lines read and the jobs checked.
    """
    with closing(sqlite3.connect("")) as book:
        book.execute("CREATE TABLE line (job_key TEXT, content TEXT)")
        read = 0
        for read, line in enumerate(lines, 1):
            kept = {name: v for name, v in line.to_dict().items() if name not in _PERSONAL}
            book.execute("INSERT INTO line VALUES (?, ?)", (line.job_key, json.dumps(kept)))
            if read % _LINES_PER_REPORT == 0:
                report(read, 0)
        found: Iterable[tuple[str, str]] = book.execute("SELECT * FROM line ORDER BY job_key")
        for jobs, (_, rows) in enumerate(groupby(found, key=itemgetter(0)), 1):
            yield from check_history(_parse(content) for _, content in rows)
            if jobs % _LINES_PER_REPORT == 0:
                report(read, jobs)


def _parse(content: str) -> HistoryLine:
    held: dict[str, Any] = json.loads(content)
    return HistoryLine.from_dict(held)
