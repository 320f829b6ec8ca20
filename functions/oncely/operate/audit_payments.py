"""Compares our jobs with the payment providers' own lists, in both directions.

The history and the lists are compared first. What differs is then read again, from the row and from
the provider, so that a job that ended during the audit is no difference.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from oncely.contracts.job import AnyJob, providers_of
from oncely.core.effect_outcomes import Json, LookupFailed
from oncely.core.errors import InvalidInputError, NotConfiguredError, UnavailableError
from oncely.core.job_row import MARKED_BY_OPERATOR, JobRow
from oncely.core.keys import JobKey, is_job_type
from oncely.core.lifecycle import Event, Status
from oncely.core.text import format_time, parse_time
from oncely.history.lines import HistoryLine
from oncely.operate.audit_book import (
    AuditBook,
    AuditJob,
    AuditPeriod,
    ListedEntry,
    ReturnedEntry,
)
from oncely.operate.job_index import UnreadableRow
from oncely.plugins.ledger import (
    Difference,
    DifferenceKind,
    EntryKind,
    EntryState,
    HasLedger,
    LedgerTotal,
    PaymentLedger,
)
from oncely.plugins.provider import AnyProvider

if TYPE_CHECKING:
    from oncely.app import App

# An older book would mix two states of both sides.
MAX_RESUME_AGE: Final = timedelta(hours=24)
# A job may end, and reach the history, some time after its charge.
_HISTORY_MARGIN: Final = timedelta(days=1)
# Seconds before a failed request is repeated.
_RETRY_DELAYS: Final = (1.0, 4.0)
_WORD: Final = re.compile(r"[\w-]+")
_STARTED: Final = "started"
_DONE: Final = "done"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The sums and the number of differences of each kind. The book yields the differences."""

    period: AuditPeriod
    deployment: str
    totals: tuple[LedgerTotal, ...]
    counts: Mapping[DifferenceKind, int]
    notes: int = 0  # what differs, and what our own records explain

    @property
    def number(self) -> int:
        """The number of differences."""
        return sum(self.counts.values())

    def to_json(self) -> dict[str, Json]:
        """The last line of the report."""
        return {
            "record": "summary",
            "from": format_time(self.period.since),
            "to": format_time(self.period.until),
            "deployment": self.deployment,
            "differences": self.number,
            "notes": self.notes,
            "counts": {str(kind): self.counts.get(kind, 0) for kind in DifferenceKind},
        }


# The step, its progress from 0 to 1, and how many objects were read.
ReportAudit = Callable[[str, float, int], None]


@dataclass(frozen=True, kw_only=True)
class PaymentAuditor:
    """Audits the jobs that take money. Read-only."""

    app: "App"
    pause: Callable[[float], None] = time.sleep

    def run(self, book: AuditBook, *, report: ReportAudit = lambda *_: None) -> AuditResult:
        """Compare, continuing where an earlier run with this book stopped."""
        deployment = self.deployment()
        if book.progress(_STARTED) is None:
            book.save(_STARTED, format_time(self.app.ports.clock.now()))
        run = _AuditRun(
            auditor=self,
            book=book,
            deployment=deployment,
            ledgers=self.ledgers(),
            report=report,
        )
        run.read_history()
        run.list_providers()
        run.read_missing_jobs()
        run.read_returned()
        run.read_suspects()
        run.look_up_entries()
        run.read_voids()
        book.conclude()
        return AuditResult(
            period=book.period,
            deployment=deployment,
            totals=tuple(book.totals()),
            counts=Counter(one.kind for one in book.differences()),
            notes=sum(1 for _ in book.differences(noted=True)),
        )

    def deployment(self) -> str:
        """Return the identity that our payments carry at the providers."""
        if (identity := self.app.ports.table_identity.identity()) is None:
            raise NotConfiguredError(
                "the job table has no identity item, so it is not known which payments are ours: "
                "run `oncely doctor`"
            )
        return identity.deployment

    def report_lines(self, book: AuditBook, result: AuditResult) -> Iterator[dict[str, Json]]:
        """Yield the report: a line for each difference and note, the totals, and a summary."""
        for one in chain(book.differences(), book.differences(noted=True)):
            yield {**one.to_json(), "provider_urls": self._urls(one)}
        yield from (total.to_json() for total in result.totals)
        yield result.to_json()

    def _urls(self, difference: Difference) -> dict[str, Json]:
        """The ids that the console of their provider can show."""
        if (connected := self._clients().get(difference.provider)) is None:
            return {}
        plugin, client = connected
        scope, is_dispute = client.key_scope(), difference.kind is DifferenceKind.DISPUTE
        found = {
            one: self.app.job_queries.links.of_plugin(
                plugin, one, key_scope=scope, is_dispute=is_dispute
            )
            for one in difference.provider_ids
        }
        return {one: url for one, url in found.items() if url}

    def can_resume(self, book: AuditBook) -> bool:
        """Return whether a book is new enough to continue."""
        started = book.progress(_STARTED)
        return started is None or self.app.ports.clock.now() - parse_time(started) < MAX_RESUME_AGE

    def ledgers(self) -> dict[str, PaymentLedger]:
        """The ledgers of the payment providers that are configured, by name."""
        return {name: client.ledger for name, (_, client) in self._clients().items()}

    def _clients(self) -> dict[str, tuple[AnyProvider, HasLedger]]:
        paying = [one for one in self.app.registry if _entry_kind(one) is not None]
        configured = filter(self.app.ports.is_configured, providers_of(paying))
        clients = ((plugin, self.app.ports.provider(plugin)) for plugin in configured)
        return {one.name: (one, client) for one, client in clients if isinstance(client, HasLedger)}


@dataclass(frozen=True, kw_only=True)
class _AuditRun:
    auditor: PaymentAuditor
    book: AuditBook
    deployment: str
    ledgers: Mapping[str, PaymentLedger]
    report: ReportAudit

    def read_history(self) -> None:
        """Read our jobs from the history, one day of one job type at a time."""
        first = self.book.period.since.astimezone(UTC).date()
        last = (self.book.period.until + _HISTORY_MARGIN).astimezone(UTC).date()
        days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        for number, day in enumerate(days):
            for contract_type in self.auditor.app.registry:
                name = f"history {day} {contract_type.job_type}"
                if _entry_kind(contract_type) and self.book.progress(name) is None:
                    jobs = self._archived(day, contract_type.job_type)
                    self.book.save(name, _DONE, jobs=jobs)
            jobs_read, _ = self.book.counts()
            self.report("reading the history", (number + 1) / len(days), jobs_read)

    def list_providers(self) -> None:
        """Read each provider's lists, page by page."""
        for provider, ledger in self.ledgers.items():
            for kind in EntryKind:
                name = f"{provider} {kind}"
                while (position := self.book.progress(name)) != _DONE:
                    self._list_page(name, provider, ledger, kind, position)

    def _list_page(  # one page of one list
        self, name: str, provider: str, ledger: PaymentLedger, kind: EntryKind, after: str | None
    ) -> None:
        since, until = self.book.period.since, self.book.period.until
        page = self._retried(
            provider, lambda: ledger.list_entries(kind, since=since, until=until, after=after)
        )
        entries = [
            ListedEntry(provider, one, one.deployment == self.deployment)
            for one in page.entries
            # What others on the account declined says nothing.
            if one.state is EntryState.MOVED or one.deployment == self.deployment
        ]
        self.book.save(name, page.after or _DONE, entries=entries)
        # A list may begin at either end.
        share = abs((page.reached - (until if after is None else since)) / (until - since))
        share = 1.0 if page.after is None else min(share, 1.0)
        _, entries_read = self.book.counts()
        self.report(f"listing {provider} {kind}s", share, entries_read)

    def read_missing_jobs(self) -> None:
        """Read the rows of charges whose jobs are not in the history of these days."""
        index = self.auditor.app.ports.job_index
        for chunk in self.book.orphans():
            keys = [JobKey(label) for label, _ in chunk if _is_key(label)]
            # A digest does not lead to the key, but the reference leads to the row.
            refs = [ref for label, ref in chunk if ref is not None and not _is_key(label)]
            keys += [key for ref in refs for key in index.by_reference(ref, limit=1)]
            self.book.save("missing jobs", _DONE, jobs=self._rows(keys).values())

    def read_returned(self) -> None:
        """Read the jobs of our refunds and disputes. They may have a note about what others did."""
        index = self.auditor.app.ports.job_index
        for entries in self.book.returned():
            keys = {JobKey(one.label) for one in entries if one.label and _is_key(one.label)}
            rows = {row.job_key: row for row in self._believed(index.get_many(sorted(keys)))}
            jobs = {key: self._from_row(row) for key, row in rows.items()}
            refunds = [job for job in jobs.values() if job.kind is EntryKind.REFUND]
            self.book.save("refund jobs", _DONE, jobs=refunds)
            charged = {key: row for key, row in rows.items() if jobs[key].kind is EntryKind.CHARGE}
            self.book.mark_returned(
                {one: _note(charged.get(JobKey(one.label or "")), one) for one in entries}
            )

    def read_suspects(self) -> None:
        """Read the rows of jobs that differ: the history lags behind them."""
        for keys in self.book.suspects():
            self.book.refresh(keys, self._rows([JobKey(key) for key in keys]))

    def look_up_entries(self) -> None:
        """Look up each finished job that the lists do not show, at its provider."""
        for number, job in enumerate(self.book.unmatched(), 1):
            self.report("looking up what the lists do not show", 0.0, number)
            found = self._find_entry(job)
            period = self.book.period
            if not job.expects_entry and found is not None:
                # An order may have been paid at any time.
                self.book.save_lookup(job.job_key, found)
                continue
            if found is None or period.since <= found.entry.at < period.until:
                self.book.save_lookup(job.job_key, found)
            else:
                self.book.save_lookup(job.job_key, None, other_period=True)

    def _find_entry(self, job: AuditJob) -> ListedEntry | None:
        is_refund = job.kind is EntryKind.REFUND
        provider, ref = job.provider or "", job.ref if is_refund else job.charge_id or job.ref
        if (ledger := self.ledgers.get(provider)) is None or ref is None:
            return None
        find = ledger.find_refund if is_refund else ledger.find_charge
        found = self._retried(provider, lambda: find(ref))
        if found is None or (job.expects_entry and found.deployment != self.deployment):
            return None
        if is_refund and found.entry_id == job.charge_id:
            # A void of its charge, which has the label of the job that charged.
            found = replace(found, job_label=job.label)
        return ListedEntry(provider, found, ours=found.deployment == self.deployment)

    def read_voids(self) -> None:
        """Read the jobs with the reference of a charge that was voided: one may have refunded."""
        index = self.auditor.app.ports.job_index
        for charge_id in self.book.voids():
            self.book.save(
                "voids", _DONE, jobs=self._rows(index.by_reference(charge_id, limit=10)).values()
            )

    def _retried(self, provider: str, request: Callable[[], T | LookupFailed]) -> T:
        found = request()
        for delay in _RETRY_DELAYS:
            if not isinstance(found, LookupFailed):
                break
            self.auditor.pause(delay)
            found = request()
        if isinstance(found, LookupFailed):
            raise UnavailableError(
                f"the audit stopped: {provider} could not be read ({found.reason}). Run the same "
                "command again to continue"
            )
        return found

    def _archived(self, day: date, job_type: str) -> Iterator[AuditJob]:
        for line in self.auditor.app.ports.history.lines(since=day, until=day, job_type=job_type):
            # A removal says nothing about the payment, and the payment of a copied job is not ours.
            if line.status is not None and line.image.get("deployment") in {None, self.deployment}:
                yield self._from_line(line)

    def _rows(self, keys: Sequence[JobKey]) -> dict[str, AuditJob]:
        rows = self.auditor.app.ports.job_index.get_many(keys)
        return {row.job_key: self._from_row(row) for row in self._believed(rows)}

    def _believed(self, rows: Mapping[JobKey, JobRow | UnreadableRow]) -> list[JobRow]:
        """The rows of jobs that move money. A producer may insert a row, as any status."""
        moving = {one.job_type for one in self.auditor.app.registry if _entry_kind(one)}
        jobs = (row for row in rows.values() if isinstance(row, JobRow))
        return [row for row in jobs if row.job_type in moving and not row.is_forged]

    def _from_line(self, line: HistoryLine) -> AuditJob:
        # A status that only a newer version knows decides nothing.
        known = Status(line.status) if line.status in set(Status) else Status.UNKNOWN
        return self._audit_job(line.row(known), at=line.at)

    def _from_row(self, job: JobRow) -> AuditJob:
        return self._audit_job(job, at=job.status_since)

    def _audit_job(self, job: JobRow, *, at: datetime) -> AuditJob:
        provider = job.provider or self._only_provider(job.job_type)
        ledger = self.ledgers.get(provider or "")
        result = job.result or {}
        charge_id = result.get("charge_id")
        return AuditJob(
            job_key=job.job_key,
            kind=_entry_kind(self.auditor.app.registry.contract(job.job_type)) or EntryKind.CHARGE,
            position=f"{format_time(job.created_at)} {job.version:012d}",
            provider=provider,
            label=job.job_key if ledger is None else ledger.job_label(job.job_key),
            subject=job.subject or self._subject(job.message) or job.job_key,
            state=str(job.status) if job.ended else "open",
            at=format_time(at),
            ref=job.provider_ref,
            charge_id=str(charge_id) if charge_id else None,
            # A job that found its order paid has no reference, and a result with that charge, which
            # an erasure removes together with the amount.
            expects_entry=job.provider_ref is not None
            or ("charge_id" not in result and job.amount is not None)
            or result.get("code") == MARKED_BY_OPERATOR,
            amount=job.amount,
            currency=job.currency,
        )

    def _only_provider(self, job_type: str) -> str | None:
        plugins = self.auditor.app.registry.contract(job_type).all_providers()
        return plugins[0].name if len(plugins) == 1 else None

    def _subject(self, message: Mapping[str, object] | None) -> str | None:
        try:
            return self.auditor.app.registry.parse_mapping(dict(message or {})).subject_id()
        except InvalidInputError:
            return None


def _entry_kind(contract_type: type[AnyJob]) -> EntryKind | None:
    """What its jobs create at a payment provider. Returns None if they move no money."""
    if contract_type.takes_money:
        return EntryKind.CHARGE
    return EntryKind.REFUND if contract_type.returns_money else None


def _note(row: JobRow | None, entry: ReturnedEntry) -> str | None:
    """Return that the charge's job has this on record. Returns None if it was not noted since."""
    if row is None:
        return None
    named = {entry.entry_id, entry.ref, (row.result or {}).get("charge_id")} - {None, ""}
    recorded = any(
        one.event is Event.NOTE
        and (one.last_at or one.at) >= entry.at
        and not named.isdisjoint(_WORD.findall(one.reason))
        for one in row.evidence
    )
    return f"in the timeline of {row.job_key}" if recorded else None


def _is_key(label: str) -> bool:
    """Whether a label is a job key, and not a digest of one."""
    return is_job_type(label.partition(":")[0])
