"""The working file of an audit: both sides in SQLite, so it needs little memory and can resume."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Self

from oncely.core.money import Money
from oncely.core.text import format_time, parse_time
from oncely.plugins.ledger import (
    Difference,
    DifferenceKind,
    EntryKind,
    LedgerEntry,
    LedgerSum,
    LedgerTotal,
)

# What the provider has for a job, and the difference that this is. `{}` is charge or refund. A job
# that is open decides later. Without a readable row and history, each entry is reported alone.
VERDICTS: Final = (
    #  job         at the provider  difference
    ("finished", "nothing", "job_without_{}"),
    ("finished", "failed", "{}_failed_later"),
    ("finished", "several", "several_{}s"),
    ("failed", "each", "{}_of_failed_job"),
    ("failed", "several", "several_{}s"),
    ("cancelled", "each", "{}_of_failed_job"),
    ("cancelled", "several", "several_{}s"),
    ("open", "several", "several_{}s"),
    ("missing", "each", "{}_without_job"),
)

# `entry` is the provider's side, `job` is ours. A charge is the job's own if the job saved its
# charge id, or else its reference. `looked_up` is NULL, `done` or `other period`.
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS period (since TEXT, until TEXT);
CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS verdict (
    kind TEXT, state TEXT, found TEXT, difference TEXT, PRIMARY KEY (kind, state, found)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS entry (
    provider TEXT, kind TEXT, entry_id TEXT, ref TEXT, label TEXT, ours INTEGER, state TEXT,
    amount INTEGER, currency TEXT, at TEXT, note TEXT, job_read INTEGER DEFAULT 0,
    PRIMARY KEY (provider, kind, entry_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entry_of_job ON entry (provider, label);

CREATE TABLE IF NOT EXISTS job (
    job_key TEXT PRIMARY KEY, kind TEXT, position TEXT, provider TEXT, label TEXT, subject TEXT,
    state TEXT, at TEXT, ref TEXT, charge_id TEXT, expects_entry INTEGER,
    amount INTEGER, currency TEXT, checked INTEGER DEFAULT 0, looked_up TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS job_of_entry ON job (provider, label);
CREATE INDEX IF NOT EXISTS job_of_subject ON job (subject, kind);

-- Every charge and refund of ours that moved money, with the state of its job.
CREATE VIEW IF NOT EXISTS moved AS SELECT
    entry.provider, entry.kind, entry.entry_id, entry.label, entry.ref AS entry_ref, entry.note,
    entry.amount AS their_amount, entry.currency AS their_currency, entry.at,
    coalesce(job.state, 'missing') AS state, job.job_key, job.subject, job.expects_entry,
    job.checked, job.looked_up, job.ref, job.charge_id, job.amount, job.currency,
    coalesce(entry.entry_id = job.charge_id, job.ref IN (entry.ref, entry.entry_id), 0) AS is_own
FROM entry LEFT JOIN job
    ON job.provider = entry.provider AND job.label = entry.label AND job.kind = entry.kind
WHERE entry.ours AND entry.state = 'moved' AND entry.kind <> 'dispute';

CREATE VIEW IF NOT EXISTS orphan AS SELECT * FROM moved WHERE kind = 'charge' AND state = 'missing';

-- Every entry that is a job's own, also one that moved no money. Any charge of the account may have
-- paid an order that a job found paid.
CREATE VIEW IF NOT EXISTS own AS SELECT job.job_key, entry.state
FROM job JOIN entry ON entry.provider = job.provider AND entry.kind = job.kind
    AND entry.entry_id = iif(job.kind = 'charge', job.charge_id, job.ref)
    AND (entry.ours OR NOT job.expects_entry)
UNION ALL SELECT job.job_key, entry.state
FROM job JOIN entry ON entry.provider = job.provider AND entry.label = job.label
    AND entry.kind = job.kind AND entry.ours
    AND (job.kind = 'refund' OR (job.charge_id IS NULL AND job.ref IN (entry.ref, entry.entry_id)));

-- Without an entry that moved money. An order that is paid without a charge id names nothing.
CREATE VIEW IF NOT EXISTS unmatched AS SELECT job.*,
    iif(EXISTS (SELECT 1 FROM own WHERE own.job_key = job.job_key), 'failed', 'nothing') AS found
FROM job, period
WHERE job.state = 'finished' AND at >= since AND at < until AND (expects_entry OR charge_id <> '')
    AND coalesce(looked_up, '') <> 'other period' AND NOT EXISTS (
        SELECT 1 FROM own WHERE own.job_key = job.job_key AND own.state = 'moved'
    );

-- The charges of each order: those listed, and those that its jobs saved and that are older.
CREATE VIEW IF NOT EXISTS order_charge AS
SELECT subject, job_key, provider, entry_id AS id, their_amount AS amount,
    their_currency AS currency, at
FROM moved WHERE kind = 'charge' AND state <> 'missing'
UNION SELECT subject, job_key, provider, coalesce(charge_id, ref), amount, currency, at FROM moved
WHERE kind = 'charge' AND state = 'finished' AND expects_entry AND coalesce(looked_up, '') <> 'done'
    AND NOT EXISTS (
        SELECT 1 FROM own WHERE own.job_key = moved.job_key AND own.state = 'moved'
    );

-- A refund of a provider that voids what has not settled: no entry of its own, and no charge.
CREATE VIEW IF NOT EXISTS void AS SELECT charge.job_key, min(refund.job_key) AS refund_key
FROM unmatched AS charge JOIN job AS refund
    ON refund.kind = 'refund' AND refund.provider = charge.provider AND refund.state = 'finished'
    AND refund.subject = charge.subject AND charge.charge_id IN (refund.charge_id, refund.ref)
    AND refund.amount = charge.amount AND refund.currency = charge.currency
WHERE charge.kind = 'charge' AND charge.found = 'failed' AND NOT EXISTS (
    SELECT 1 FROM entry WHERE entry.provider = refund.provider AND entry.label = refund.label
        AND entry.kind = 'refund' AND entry.entry_id <> charge.charge_id AND entry.state = 'moved'
) GROUP BY charge.job_key;

CREATE VIEW IF NOT EXISTS difference AS
SELECT difference AS kind, provider, entry_id AS ids, their_amount, their_currency, at,
    coalesce(job_key, label) AS job_key, subject, amount, currency, note
FROM moved JOIN verdict USING (kind, state) WHERE found = 'each'
UNION ALL SELECT difference, provider, group_concat(DISTINCT entry_id), sum(their_amount),
    min(their_currency), max(at), job_key, subject, amount, currency, NULL
FROM moved JOIN verdict USING (kind, state) WHERE found = 'several' AND kind = 'refund'
GROUP BY job_key HAVING count(DISTINCT entry_id) > 1
UNION ALL SELECT difference, min(provider), group_concat(DISTINCT id),
    iif(min(currency) = max(currency), sum(order_charge.amount), NULL), min(currency), max(at),
    min(job_key), subject, NULL, NULL, NULL
FROM order_charge JOIN verdict ON verdict.kind = 'charge' AND state = 'open' AND found = 'several'
GROUP BY subject HAVING count(DISTINCT id) > 1
UNION ALL SELECT
    iif(found = 'nothing' AND kind = 'charge' AND charge_id <> '', 'charge_id_unknown', difference),
    provider, coalesce(iif(kind = 'charge', charge_id, NULL), ref, charge_id, ''), NULL, NULL, at,
    unmatched.job_key, subject, amount, currency, 'voided by ' || refund_key
FROM unmatched JOIN verdict USING (kind, state, found) LEFT JOIN void USING (job_key)
UNION ALL SELECT iif(currency = their_currency, 'amount_differs', 'currency_differs'), provider,
    entry_id, their_amount, their_currency, at, job_key, subject, amount, currency, NULL
FROM moved WHERE state = 'finished' AND (is_own OR kind = 'refund')
    AND (amount, currency) <> (their_amount, their_currency)
UNION ALL SELECT 'dispute', entry.provider, entry_id, entry.amount, entry.currency, entry.at,
    coalesce(job_key, entry.label), subject, NULL, NULL, note
FROM entry LEFT JOIN job ON job.provider = entry.provider AND job.label = entry.label
WHERE entry.kind = 'dispute' AND ours;

-- What differs at the end: the view reads everything, so it is read once.
CREATE TABLE IF NOT EXISTS report AS SELECT * FROM difference WHERE 0;

-- The history lags behind these jobs.
CREATE VIEW IF NOT EXISTS suspect AS SELECT job_key FROM job WHERE NOT checked AND job_key IN (
    SELECT job_key FROM difference WHERE note IS NULL
    UNION SELECT job_key FROM moved WHERE state = 'open' AND kind = 'charge'
);

CREATE VIEW IF NOT EXISTS sums AS
SELECT provider, currency, iif(ours, kind || 's', 'not_ours') AS name, amount FROM entry
WHERE (ours OR kind = 'charge') AND state = 'moved'
    AND NOT (kind = 'refund' AND entry_id IS ref)  -- a void: its charge is in no sum either
UNION ALL SELECT provider, their_currency, 'unresolved', their_amount FROM moved
WHERE kind = 'charge' AND state = 'open'
UNION ALL SELECT provider, currency, 'jobs', amount FROM moved
WHERE kind = 'charge' AND state = 'finished' AND is_own AND amount IS NOT NULL
UNION ALL SELECT provider, currency, 'jobs', amount FROM unmatched
WHERE kind = 'charge' AND expects_entry AND amount IS NOT NULL
    AND job_key NOT IN (SELECT job_key FROM void);
"""

# The time of a job is that of its first line in its status.
ADD_JOB: Final = """
INSERT INTO job (job_key, kind, position, provider, label, subject, state, at, ref, charge_id,
    expects_entry, amount, currency)
VALUES (:job_key, :kind, :position, :provider, :label, :subject, :state, :at, :ref, :charge_id,
    :expects_entry, :amount, :currency)
ON CONFLICT (job_key) DO UPDATE SET position = excluded.position, provider = excluded.provider,
    label = excluded.label, subject = excluded.subject, state = excluded.state,
    ref = excluded.ref, charge_id = excluded.charge_id,
    expects_entry = excluded.expects_entry, amount = excluded.amount,
    currency = excluded.currency,
    at = iif(job.state = excluded.state, job.at, excluded.at)
WHERE excluded.position > job.position
"""


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
