"""The working file of an audit: both sides in SQLite, so it needs little memory and can resume."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Self

from oncely.core.money import Money
from oncely.core.text import format_time, parse_time
from oncely.operate.audit_schema import ADD_JOB, SCHEMA, VERDICTS
from oncely.plugins.ledger import (
    Difference,
    DifferenceKind,
    EntryKind,
    LedgerEntry,
    LedgerSum,
    LedgerTotal,
)


@dataclass(frozen=True, kw_only=True)
class AuditPeriod:
    """The period of an audit, by the time of the provider's entry. `until` is excluded."""

    since: datetime
    until: datetime


@dataclass(frozen=True, kw_only=True)
class AuditJob:
    """What an audit needs to know about a job, from its history or its row."""

    job_key: str
    kind: EntryKind  # what it makes at the provider: a charge or a refund
    position: str  # sorts the states of a job by time
    provider: str | None
    label: str  # of its entries at the provider
    subject: str
    state: str  # finished, failed, cancelled or open
    at: str  # when it entered its status, as far as is known
    ref: str | None
    charge_id: str | None
    expects_entry: bool  # false for a job that found its order paid
    amount: int | None  # None if it was erased
    currency: str | None


@dataclass(frozen=True, kw_only=True)
class ReturnedEntry:
    """A refund or a dispute, whose job may have a note about it."""

    provider: str
    kind: EntryKind
    entry_id: str
    ref: str | None
    label: str | None
    at: datetime


@dataclass(frozen=True)
class ListedEntry:
    """An entry of a provider, and whether it is of this deployment."""

    provider: str
    entry: LedgerEntry
    ours: bool


class AuditBook:
    """Both sides of an audit in one SQLite file. Each step and its progress are one transaction."""

    def __init__(self, path: str, period: AuditPeriod) -> None:
        self.period = period
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.row_factory = sqlite3.Row
        # The file may be lost: the next audit creates it again.
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.executescript(SCHEMA)
        with self._transaction():
            self._file.execute("DELETE FROM period")
            bounds = (format_time(period.since), format_time(period.until))
            self._file.execute("INSERT INTO period VALUES (?, ?)", bounds)
            verdicts = [
                (kind, state, found, difference.format(kind))
                for state, found, difference in VERDICTS
                for kind in (EntryKind.CHARGE, EntryKind.REFUND)
            ]
            query = "INSERT OR REPLACE INTO verdict VALUES (?, ?, ?, ?)"
            self._file.executemany(query, verdicts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def progress(self, name: str) -> str | None:
        """Return the progress of a step. Returns None if it has not begun."""
        found = self._rows("SELECT value FROM progress WHERE name = :name", name=name)
        return next((str(row["value"]) for row in found), None)

    def save(
        self,
        name: str,
        value: str,
        *,
        entries: Iterable[ListedEntry] = (),
        jobs: Iterable[AuditJob] = (),
    ) -> None:
        """Add entries and jobs, and the progress of their step."""
        with self._transaction():
            for one in entries:
                self._add_entry(one)
            for job in jobs:
                self._add_job(job)
            self._file.execute("INSERT OR REPLACE INTO progress VALUES (?, ?)", (name, value))

    def counts(self) -> tuple[int, int]:
        """Count the jobs and the entries."""
        query = "SELECT (SELECT count(*) FROM job) AS jobs, (SELECT count(*) FROM entry) AS entries"
        (row,) = self._rows(query)
        return row["jobs"], row["entries"]

    def orphans(self) -> Iterator[list[tuple[str, str | None]]]:
        """Yield label and reference of the charges whose job is not known yet, some at a time."""
        query = (
            "SELECT provider, label, min(entry_ref) AS ref FROM orphan WHERE (provider, label) > "
            "(:provider, :label) GROUP BY provider, label ORDER BY provider, label LIMIT 100"
        )
        last = {"provider": "", "label": ""}
        while rows := list(self._rows(query, **last)):
            yield [(row["label"], row["ref"]) for row in rows]
            last = {name: rows[-1][name] for name in last}

    def suspects(self) -> Iterator[list[str]]:
        """Yield the keys of jobs that differ from the provider's list, some at a time."""
        keys = [row["job_key"] for row in self._rows("SELECT job_key FROM suspect")]
        for start in range(0, len(keys), 100):
            yield keys[start : start + 100]

    def returned(self) -> Iterator[list[ReturnedEntry]]:
        """Yield our refunds and disputes, until the jobs of each were read."""
        names = ", ".join(ReturnedEntry.__dataclass_fields__)
        query = (
            f"SELECT {names} FROM entry WHERE kind <> 'charge' AND ours AND NOT job_read LIMIT 100"  # noqa: S608  # names of our fields
        )
        while rows := list(self._rows(query)):
            yield [
                ReturnedEntry(
                    **{**dict(row), "kind": EntryKind(row["kind"]), "at": parse_time(row["at"])}
                )
                for row in rows
            ]

    def mark_returned(self, entries: Mapping[ReturnedEntry, str | None]) -> None:
        """Save what explains each, and that its job was read."""
        query = (
            "UPDATE entry SET job_read = 1, note = ? WHERE (provider, kind, entry_id) = (?, ?, ?)"
        )
        with self._transaction():
            self._file.executemany(
                query,
                [(note, one.provider, one.kind, one.entry_id) for one, note in entries.items()],
            )

    def refresh(self, keys: Sequence[str], jobs: Mapping[str, AuditJob]) -> None:
        """Replace jobs by their rows, and note that they were read."""
        with self._transaction():
            for key in keys:
                if key in jobs:
                    self._file.execute("DELETE FROM job WHERE job_key = ?", (key,))
                    self._add_job(jobs[key])
                self._file.execute("UPDATE job SET checked = 1 WHERE job_key = ?", (key,))

    def unmatched(self) -> Iterator[AuditJob]:
        """Yield the finished jobs of the period without their entry, until each is looked up."""
        query = "SELECT * FROM unmatched WHERE looked_up IS NULL AND found = 'nothing' LIMIT 100"
        while rows := list(self._rows(query)):
            yield from (_parse_job(row) for row in rows)

    def save_lookup(
        self, job_key: str, found: ListedEntry | None, *, other_period: bool = False
    ) -> None:
        """Note that a job was looked up: its entry, or that it belongs to another period."""
        with self._transaction():
            if found is not None:
                self._add_entry(found)
            query = "UPDATE job SET looked_up = ? WHERE job_key = ?"
            self._file.execute(query, ("other period" if other_period else "done", job_key))

    def voids(self) -> list[str]:
        """Return the charge ids of finished jobs whose charges failed or were voided later."""
        query = "SELECT charge_id FROM unmatched WHERE kind = 'charge' AND found = 'failed'"
        return [row["charge_id"] for row in self._rows(query) if row["charge_id"]]

    def conclude(self) -> None:
        """Compare both sides as they are now."""
        with self._transaction():
            self._file.execute("DELETE FROM report")
            self._file.execute("INSERT INTO report SELECT * FROM difference")

    def differences(self, *, noted: bool = False) -> Iterator[Difference]:
        """Yield what differs, or what our records explain, kind by kind and the oldest first."""
        for kind in DifferenceKind:
            query = (
                "SELECT * FROM report WHERE kind = :kind AND (note IS NOT NULL) = :noted "
                "ORDER BY at, ids"
            )
            yield from (
                _parse_difference(row) for row in self._rows(query, kind=kind.value, noted=noted)
            )

    def totals(self) -> list[LedgerTotal]:
        """Return the sums by provider and currency."""
        query = (
            "SELECT provider, currency, name, count(*) AS number, sum(amount) AS amount FROM sums "
            "GROUP BY provider, currency, name"
        )
        found: dict[tuple[str, str], dict[str, LedgerSum]] = {}
        for row in self._rows(query):
            sums = found.setdefault((row["provider"], row["currency"]), {})
            sums[row["name"]] = LedgerSum(count=row["number"], amount=row["amount"])
        return [
            LedgerTotal(provider=provider, currency=currency, **sums)
            for (provider, currency), sums in sorted(found.items())
        ]

    def _transaction(self) -> sqlite3.Connection:
        self._file.execute("BEGIN")
        return self._file  # commits, or rolls back after an error

    def _rows(self, query: str, **values: object) -> Iterator[sqlite3.Row]:
        with closing(self._file.execute(query, values)) as cursor:
            yield from cursor

    def _add_entry(self, one: ListedEntry) -> None:
        entry = one.entry
        values = (
            *(one.provider, entry.kind, entry.entry_id, entry.ref, entry.job_label, one.ours),
            entry.state,
            *(entry.money.amount, entry.money.currency, format_time(entry.at)),
        )
        self._file.execute(
            "INSERT OR REPLACE INTO entry VALUES (?,?,?,?,?,?,?,?,?,?,NULL,0)", values
        )

    def _add_job(self, job: AuditJob) -> None:
        self._file.execute(ADD_JOB, asdict(job))


def _money(amount: int | None, currency: str | None) -> Money | None:
    return None if amount is None or currency is None else Money(amount, currency)


def _parse_difference(row: sqlite3.Row) -> Difference:
    return Difference(
        kind=DifferenceKind(row["kind"]),
        provider=row["provider"] or "unknown",
        job_key=row["job_key"],
        subject=row["subject"],
        provider_ids=tuple(sorted(filter(None, row["ids"].split(",")))),
        theirs=_money(row["their_amount"], row["their_currency"]),
        ours=_money(row["amount"], row["currency"]),
        at=parse_time(row["at"]),
        note=row["note"],
    )


def _parse_job(row: sqlite3.Row) -> AuditJob:
    values = {name: row[name] for name in AuditJob.__dataclass_fields__}
    flagged = {"expects_entry": bool(row["expects_entry"])}
    return AuditJob(**{**values, **flagged, "kind": EntryKind(row["kind"])})
