"""Rejected messages in the archive: what was wrong with each, and whether it was resent."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from oncely.aws.objects import S3Objects
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidInputError, InvalidRequestError
from oncely.core.text import format_time, mask_emails, support_line

if TYPE_CHECKING:
    from oncely.app import App

DEFAULT_WINDOW: Final = timedelta(days=7)
MAX_REJECTS: Final = 200
# On a timeline; each is one read from the archive.
MAX_JOB_REJECTS: Final = 10

REJECTS_PREFIX: Final = "rejects/"
REJECT_SUFFIX: Final = ".json"
_NAME: Final = re.compile(r"\d{4}/\d\d/\d\d/[\w-]{1,100}", re.ASCII)
# Empty objects that point to a reject. They hold no data, so an erasure leaves them.
_BY_JOB: Final = f"{REJECTS_PREFIX}by-job/"
_LAST_SECOND: Final = 9_999_999_999
_RESENT: Final = f"{REJECTS_PREFIX}resent/"


@dataclass(frozen=True, kw_only=True)
class StoredReject:
    """A rejected message in the archive. Its content comes from the producer: do not trust it."""

    name: str  # such as 2026/11/16/<message id>
    at: datetime
    body: str
    reason: str
    queue: str


@dataclass(frozen=True)
class RejectArchive:
    """Rejected messages in the archive, by day, with the job of each and whether it was resent."""

    objects: S3Objects

    def recent_rejects(self, *, since: datetime, until: datetime, limit: int) -> list[StoredReject]:
        """Return the messages that were rejected in this time, the latest first."""
        newest = self._newest(since, until, limit)
        names = (key.removeprefix(REJECTS_PREFIX).removesuffix(REJECT_SUFFIX) for key, _ in newest)
        return self._read_all(names)

    def count_rejects(self, *, since: datetime, until: datetime, limit: int) -> int:
        """Count the messages that were rejected in this time, without reading them."""
        return len(self._newest(since, until, limit))

    def read_reject(self, name: str) -> StoredReject | None:
        """Return one message. Returns None if there is none of this name."""
        key = f"{REJECTS_PREFIX}{name}{REJECT_SUFFIX}"
        if not _NAME.fullmatch(name) or (found := self.objects.find(key)) is None:
            return None
        stored = json.loads(found.body)
        return StoredReject(
            name=name,
            at=found.at,
            body=str(stored.get("body", "")),
            reason=str(stored.get("reason", "no reason was recorded")),
            queue=str(stored.get("queue", "unknown")),
        )

    def job_rejects(self, job_key: str, *, limit: int) -> list[StoredReject]:
        """Return the rejected messages of this job, latest first."""
        listed = self.objects.list(f"{_BY_JOB}{_digest(job_key)}/", limit=limit)
        # A batch that was archived twice is listed twice.
        names = dict.fromkeys("/".join(key.split("/")[4:]) for key, _ in listed)
        return self._read_all(names)

    def resent(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these messages were resent."""
        days = {name[:10] for name in names if _NAME.fullmatch(name)}
        one = next(iter(names)) if len(names) == 1 else ""
        keys = (key for day in days for key, _ in self.objects.list(f"{_RESENT}{one or f'{day}/'}"))
        return frozenset(names) & {key.removeprefix(_RESENT) for key in keys}

    def reserve_resend(self, name: str, *, actor: str) -> bool:
        """Record that a message is resent. Returns False if that is already recorded."""
        is_name = _NAME.fullmatch(name) is not None
        return is_name and self.objects.create(f"{_RESENT}{name}", actor.encode())

    def _read_all(self, names: Iterable[str]) -> list[StoredReject]:
        # One may have been erased or have expired since it was listed.
        return [one for one in map(self.read_reject, names) if one is not None]

    def _newest(self, since: datetime, until: datetime, limit: int) -> list[tuple[str, datetime]]:
        """Names and times of objects, the latest first. Lists one day after the other."""
        found: list[tuple[str, datetime]] = []
        day, first = until.astimezone(UTC).date(), since.astimezone(UTC).date()
        while day >= first and len(found) < limit:
            listed = self.objects.list(f"{REJECTS_PREFIX}{day:%Y/%m/%d}/")
            wanted = (one for one in listed if one[1] >= since)
            found += sorted(wanted, key=lambda one: one[1], reverse=True)
            day -= timedelta(days=1)
        return found[:limit]

    def save_reject(self, message_id: str, reject: Mapping[str, Json], *, at: datetime) -> None:
        """Write a rejected message, and to which job it belongs."""
        name, key = f"{at.astimezone(UTC):%Y/%m/%d}/{message_id}", reject.get("job_key")
        self.objects.put_json(f"{REJECTS_PREFIX}{name}{REJECT_SUFFIX}", reject)
        if isinstance(key, str):
            # A list is in the order of names, so that one request returns the newest.
            order = f"{_LAST_SECOND - int(at.timestamp()):010d}"
            self.objects.put(f"{_BY_JOB}{_digest(key)}/{order}/{name}", b"")


def _digest(job_key: str) -> str:
    return hashlib.sha256(job_key.encode(errors="surrogatepass")).hexdigest()[:32]


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
            key = self.app.registry.parse_body(reject.body).job_key()
        except InvalidInputError:
            return RejectView(reject=reject, job_key=None, resent=resent)
        return RejectView(reject=reject, job_key=key, resent=resent)
