"""Rejected messages: what was wrong with each."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidInputError, InvalidRequestError
from oncely.core.text import format_time, mask_emails, support_line

if TYPE_CHECKING:
    from oncely.app import App

DEFAULT_WINDOW: Final = timedelta(days=7)
MAX_REJECTS: Final = 200
# On a timeline; each is one read from the archive.
MAX_JOB_REJECTS: Final = 10


@dataclass(frozen=True, kw_only=True)
class StoredReject:
    """A rejected message in the archive. Its content comes from the producer: do not trust it."""

    name: str  # such as 2026/11/16/<message id>
    at: datetime
    body: str
    reason: str
    queue: str


@dataclass(frozen=True, kw_only=True)
class RejectView:
    """A rejected message as operators see it."""

    reject: StoredReject
    job_key: str | None  # None if the message cannot be read: it cannot be resent either
    resent: bool = False

    def to_json(self) -> dict[str, Json]:
        """The message with email addresses masked."""
        one = self.reject
        return {
            "name": one.name,
            "at": format_time(one.at),
            "queue": one.queue,
            "reason": support_line(one.reason),
            "job_key": self.job_key,
            "resent": self.resent,
            "body": mask_emails(one.body),
        }


@dataclass(frozen=True)
class RejectedMessages:
    """Lists rejected messages."""

    app: "App"

    def recent(self, *, since: datetime | None = None, limit: int) -> list[RejectView]:
        """Return the latest rejects, of the last 7 days by default."""
        now = self.app.ports.clock.now()
        start = since or now - DEFAULT_WINDOW
        found = self.app.ports.stored_rejects.recent_rejects(
            since=start, until=now, limit=min(limit, MAX_REJECTS)
        )
        resent = self.app.ports.stored_rejects.resent([one.name for one in found])
        return [self._view(one, resent=one.name in resent) for one in found]

    def of_job(self, job_key: str) -> list[RejectView]:
        """Return the latest rejects of a job."""
        found = self.app.ports.stored_rejects.job_rejects(job_key, limit=MAX_JOB_REJECTS)
        return [RejectView(reject=one, job_key=job_key) for one in found]

    def count_today(self) -> int:
        """Count the rejects of the last 24 hours, up to a limit."""
        now = self.app.ports.clock.now()
        since = now - timedelta(days=1)
        return self.app.ports.stored_rejects.count_rejects(
            since=since, until=now, limit=MAX_REJECTS
        )

    def get(self, name: str) -> RejectView:
        """Return one reject."""
        if (found := self.app.ports.stored_rejects.read_reject(name)) is None:
            raise InvalidRequestError(
                f"no rejected message {name!r}: list them with `oncely rejects`"
            )
        return self._view(found, resent=bool(self.app.ports.stored_rejects.resent([name])))

    def _view(self, reject: StoredReject, *, resent: bool) -> RejectView:
        try:
            contract_type, message = self.app.registry.parse_body(reject.body)
            key = contract_type.key(message)
        except InvalidInputError:
            return RejectView(reject=reject, job_key=None, resent=resent)
        return RejectView(reject=reject, job_key=key, resent=resent)
