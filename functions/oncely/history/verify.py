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


def verify_history(
    lines: Iterable[HistoryLine], *, report: Callable[[int, int], None] = lambda *_: None
) -> Iterator[BrokenRule]:
    """Yield the rules that these lines break, job by job.

    The lines of a job are spread over the days of its life. SQLite sorts them in a file that it
    deletes itself, so memory holds one job. `report` gets the number of lines checked, and of all.
    """
    with closing(sqlite3.connect("")) as book:
        book.execute("CREATE TABLE line (job_key TEXT, content TEXT)")
        for line in lines:
            kept = {name: v for name, v in line.to_dict().items() if name not in _PERSONAL}
            book.execute("INSERT INTO line VALUES (?, ?)", (line.job_key, json.dumps(kept)))
        (number,) = book.execute("SELECT count(*) FROM line").fetchone()
        report(checked := 0, number)  # sorting takes a while
        found: Iterable[tuple[str, str]] = book.execute("SELECT * FROM line ORDER BY job_key")
        for _, rows in groupby(found, key=itemgetter(0)):
            of_job = [_parse(content) for _, content in rows]
            yield from check_history(of_job)
            checked += len(of_job)
            report(checked, number)


def _parse(content: str) -> HistoryLine:
    held: dict[str, Any] = json.loads(content)
    return HistoryLine.from_dict(held)
