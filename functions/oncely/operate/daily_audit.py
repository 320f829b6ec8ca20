"""The scheduled audit of each day in a window: a stored report, and an alert if it differs."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncely.alerts.alert_texts import audit_alert
from oncely.alerts.budget import Alert
from oncely.aws.objects import S3Objects
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.text import format_time, parse_time
from oncely.operate.audit_book import AuditBook, AuditPeriod
from oncely.operate.audit_payments import AuditResult

if TYPE_CHECKING:
    from oncely.app import App

# Each of so many days is audited again: a refund or a settlement may fail days later.
WINDOW_DAYS: Final = 14
# Between the invocations for two days, so that few read the providers at the same time.
STAGGER_MINUTES: Final = 2
# Of other periods as well, such as those that an operator's own schedule audits.
_MAX_REPORTS: Final = 20 * WINDOW_DAYS
_PREFIX: Final = "audits/"
_SUFFIX: Final = ".jsonl"
_NAME_TIME: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-(\d{8}T\d{6}Z)-(\d+)")


@dataclass(frozen=True, kw_only=True)
class StoredAudit:
    """A stored report, described by its name."""

    since: datetime
    until: datetime
    differences: int

    @property
    def name(self) -> str:
        """Its name in the archive, which `_parse_name` reads."""
        days = (one.astimezone(UTC).strftime(_NAME_TIME) for one in (self.since, self.until))
        return f"{'-'.join(days)}-{self.differences}"

    def to_json(self) -> dict[str, Json]:
        """The report as an entry of a list."""
        return {
            "name": self.name,
            "since": format_time(self.since),
            "until": format_time(self.until),
            "differences": self.differences,
        }


@dataclass(frozen=True)
class AuditReports:
    """The reports in the archive, one object of JSON lines each."""

    objects: S3Objects

    def save_audit(self, audit: StoredAudit, lines: Sequence[Mapping[str, Json]]) -> None:
        """Write a report, or replace the one of the same period and number."""
        body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        self.objects.put(_report_key(audit.name), body, "application/jsonl")

    def recent_audits(self, *, limit: int) -> list[StoredAudit]:
        """Return the newest report of each of the latest periods, the latest period first."""
        newest: dict[tuple[datetime, datetime], StoredAudit] = {}
        for key, _ in sorted(self.objects.list(_PREFIX), key=itemgetter(1)):
            if audit := _parse_name(key.removeprefix(_PREFIX).removesuffix(_SUFFIX)):
                newest[audit.since, audit.until] = audit
        return [newest[period] for period in sorted(newest, reverse=True)][:limit]

    def read_audit(self, name: str) -> list[dict[str, Json]] | None:
        """Return the lines of a report. Returns None if there is none of this name."""
        if _parse_name(name) is None or (found := self.objects.find(_report_key(name))) is None:
            return None
        return [json.loads(line) for line in found.body.splitlines()]


def _report_key(name: str) -> str:
    return f"{_PREFIX}{name}{_SUFFIX}"


def _parse_name(name: str) -> StoredAudit | None:
    if (found := _NAME.fullmatch(name)) is None:
        return None
    since, until = (
        datetime.strptime(text, _NAME_TIME).replace(tzinfo=UTC) for text in found.groups()[:2]
    )
    return StoredAudit(since=since, until=until, differences=int(found[3]))


@dataclass(frozen=True)
class DailyAudit:
    """Audits one earlier day. An audit of the same day alerts only what its report does not have.

    A refund or a settlement may fail days later, so each day is audited again for some time.
    """

    app: "App"

    def run(self, folder: Path, *, scheduled_at: object) -> AuditResult:
        """Audit a day with a working file in `folder`, which must be empty.

        The minute of the invocation chooses the day: the first one is for yesterday.
        """
        days_ago = 1 + _scheduled_minute(scheduled_at) // STAGGER_MINUTES
        now = self.app.ports.clock.now().astimezone(UTC)
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        since = today - timedelta(days=days_ago)
        period = AuditPeriod(since=since, until=since + timedelta(days=1))
        with AuditBook(str(folder / "audit.sqlite"), period) as book:
            result = self.app.payment_auditor.run(book)
            lines = list(self.app.payment_auditor.report_lines(book, result))
        known = self._known(period)
        new = [
            one for one in lines if one["record"] == "difference" and _identity(one) not in known
        ]
        # Before the report is saved: a retry of a failed alert must find it new again.
        if new and not self.app.notifier.notify(self._alert(result, new)):
            raise UnavailableError(
                "the alert about the audit could not be sent: the next invocation repeats it"
            )
        audit = StoredAudit(since=period.since, until=period.until, differences=result.number)
        self.app.ports.audit_reports.save_audit(audit, lines)
        return result

    def _known(self, period: AuditPeriod) -> set[str]:
        """The differences in the newest report of this day."""
        found = self.app.ports.audit_reports.recent_audits(limit=_MAX_REPORTS)
        same = (one for one in found if (one.since, one.until) == (period.since, period.until))
        name = next((one.name for one in same), None)
        lines = (self.app.ports.audit_reports.read_audit(name) or []) if name else []
        return {_identity(one) for one in lines if one.get("record") == "difference"}

    def _alert(self, result: AuditResult, new: Sequence[Mapping[str, Json]]) -> Alert:
        period = result.period
        return audit_alert(
            Counter(str(one["label"]) for one in new),
            known=result.number - len(new),
            since=period.since,
            until=period.until,
            stack=self.app.settings.stack_name,
        )


def _scheduled_minute(scheduled_at: object) -> int:
    try:
        return parse_time(scheduled_at).minute
    except ValueError as error:
        raise InvalidInputError(
            f"scheduled_at must be a time, such as 2026-11-18T03:00:00Z: {error}"
        ) from error


def _identity(line: Mapping[str, Json]) -> str:
    """What makes two differences the same. A label may read otherwise in a newer version."""
    names = ("kind", "provider", "job_key", "provider_ids", "theirs", "ours")
    return json.dumps([line.get(name) for name in names], sort_keys=True)
