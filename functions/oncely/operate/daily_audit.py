"""The scheduled audit: yesterday's payments, a stored report, and an alert if anything differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from oncely.domain.effect_outcomes import Json
from oncely.domain.errors import UnavailableError
from oncely.domain.text import format_time
from oncely.operate.audit_book import AuditBook, AuditPeriod
from oncely.operate.audit_payments import AuditResult, PaymentAuditor
from oncely.ports import Alert, Clock, Notifier
from oncely.run.alert_texts import audit_alert


@dataclass(frozen=True, kw_only=True)
class StoredAudit:
    """A stored report, described by its name."""

    name: str
    since: datetime
    until: datetime
    differences: int

    def to_json(self) -> dict[str, Json]:
        """The report as an entry of a list."""
        return {
            "name": self.name,
            "since": format_time(self.since),
            "until": format_time(self.until),
            "differences": self.differences,
        }


class AuditReports(Protocol):
    """The reports of scheduled audits."""

    def save_audit(self, audit: StoredAudit, lines: Sequence[Mapping[str, Json]]) -> None:
        """Write a report, or replace the one of the same period and number."""

    def recent_audits(self, *, limit: int) -> list[StoredAudit]:
        """Return the reports of the latest periods, the latest first."""

    def read_audit(self, name: str) -> list[dict[str, Json]] | None:
        """Return the lines of a report. Returns None if there is none of this name."""


@dataclass(frozen=True, kw_only=True)
class DailyAudit:
    """Audits the day before. Running it again repeats the audit and the alert."""

    auditor: PaymentAuditor
    reports: AuditReports
    notifier: Notifier
    clock: Clock
    stack: str

    def run(self, folder: Path) -> AuditResult:
        """Audit yesterday with a working file in `folder`, which must be empty."""
        today = self.clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        period = AuditPeriod(since=today - timedelta(days=1), until=today)
        with AuditBook(str(folder / "audit.sqlite"), period) as book:
            result = self.auditor.run(book)
            lines = list(self.auditor.report_lines(book, result))
        self.reports.save_audit(stored_audit(result), lines)
        if result.number and not self.notifier.notify(self._alert(result)):
            raise UnavailableError(
                "the alert about the audit could not be sent: the next invocation repeats it"
            )
        return result

    def _alert(self, result: AuditResult) -> Alert:
        period = result.period
        return audit_alert(
            {kind.label: number for kind, number in result.counts.items()},
            since=period.since,
            until=period.until,
            stack=self.stack,
        )


def stored_audit(result: AuditResult) -> StoredAudit:
    """Return the name and the facts of a report."""
    period = result.period
    days = "-".join(f"{one.astimezone(UTC):%Y%m%dT%H%M%SZ}" for one in (period.since, period.until))
    return StoredAudit(
        name=f"{days}-{result.number}",
        since=period.since,
        until=period.until,
        differences=result.number,
    )
