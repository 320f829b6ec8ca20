"""Rejected messages: what was wrong with each, and sending a corrected one."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from oncely.domain.effect_outcomes import Json
from oncely.domain.errors import InvalidInputError, InvalidMessageError, InvalidRequestError
from oncely.domain.masking import has_masked_email, unmask_json
from oncely.domain.text import format_time, mask_emails, support_line
from oncely.enqueue.enqueuer import Enqueuer, EnqueueResult
from oncely.ports import Clock
from oncely.registry import ContractRegistry

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


class StoredRejects(Protocol):
    """The reader of rejected messages."""

    def recent_rejects(self, *, since: datetime, until: datetime, limit: int) -> list[StoredReject]:
        """Return the messages that were rejected in this time, the latest first."""

    def read_reject(self, name: str) -> StoredReject | None:
        """Return one message. Returns None if there is none of this name."""

    def count_rejects(self, *, since: datetime, until: datetime, limit: int) -> int:
        """Count the messages that were rejected in this time, without reading them."""

    def job_rejects(self, job_key: str, *, limit: int) -> list[StoredReject]:
        """Return the rejected messages of this job, latest first."""

    def count_resends(self, names: Collection[str]) -> dict[str, int]:
        """Return how often each of these messages was resent."""

    def reserve_resend(self, name: str, number: int, *, actor: str) -> bool:
        """Record the resend with this number. Returns False if it is already recorded."""


@dataclass(frozen=True, kw_only=True)
class RejectView:
    """A rejected message as operators see it."""

    reject: StoredReject
    job_key: str | None  # None if the message has no valid job
    resends: int = 0

    def to_json(self) -> dict[str, Json]:
        """The message with email addresses masked."""
        one = self.reject
        return {
            "name": one.name,
            "at": format_time(one.at),
            "queue": one.queue,
            "reason": support_line(one.reason),
            "job_key": self.job_key,
            "resends": self.resends,
            "body": mask_emails(one.body),
        }


@dataclass(frozen=True, kw_only=True)
class ResentBefore:
    """Nothing was sent: the message was already resent."""

    resends: int

    @property
    def reason(self) -> str:
        times = "once" if self.resends == 1 else f"{self.resends} times"
        return f"this message was already resent {times}: look at its job before you resend it"


@dataclass(frozen=True)
class RejectedMessages:
    """Lists rejected messages, and sends corrected ones as a producer does."""

    registry: ContractRegistry
    rejects: StoredRejects
    enqueuer: Enqueuer
    clock: Clock

    def recent(self, *, since: datetime | None = None, limit: int) -> list[RejectView]:
        """Return the latest rejects, of the last 7 days by default."""
        now = self.clock.now()
        start = since or now - DEFAULT_WINDOW
        found = self.rejects.recent_rejects(since=start, until=now, limit=min(limit, MAX_REJECTS))
        resends = self.rejects.count_resends([one.name for one in found])
        return [self._view(one, resends[one.name]) for one in found]

    def of_job(self, job_key: str) -> list[RejectView]:
        """Return the latest rejects of a job."""
        found = self.rejects.job_rejects(job_key, limit=MAX_JOB_REJECTS)
        return [RejectView(reject=one, job_key=job_key) for one in found]

    def count_today(self) -> int:
        """Count the rejects of the last 24 hours, up to a limit."""
        now = self.clock.now()
        since = now - timedelta(days=1)
        return self.rejects.count_rejects(since=since, until=now, limit=MAX_REJECTS)

    def get(self, name: str) -> RejectView:
        """Return one reject."""
        if (found := self.rejects.read_reject(name)) is None:
            raise InvalidRequestError(
                f"no rejected message {name!r}: list them with `oncely rejects`"
            )
        return self._view(found, self.rejects.count_resends([name])[name])

    def corrected(self, name: str, changes: Mapping[str, Json]) -> dict[str, Json]:
        """Return the message with these fields changed; None removes one."""
        if (body := _json_object(self.get(name).reject.body)) is None:
            raise InvalidMessageError(
                "the message is not a JSON object, so its fields cannot be changed: send a new one"
            )
        merged = {**body, **changes}
        return {field: value for field, value in merged.items() if value is not None}

    def edited(self, name: str, text: str) -> dict[str, Json]:
        """Return the message as an operator edited it, who saw it with addresses masked."""
        if (edited := _json_object(text)) is None:
            raise InvalidMessageError("the message is not a JSON object: correct its syntax")
        unmasked = unmask_json(edited, _json_object(self.get(name).reject.body))
        if not isinstance(unmasked, dict) or has_masked_email(json.dumps(unmasked)):
            raise InvalidMessageError(
                "the message holds a masked address (a***@…) where none was: type it in full"
            )
        return unmasked

    def resend(
        self, name: str, message: Mapping[str, Json], *, actor: str, seen: int, reason: str = ""
    ) -> EnqueueResult | ResentBefore:
        """Send a corrected message, unless it was resent more often than the operator saw.

        It is checked as every message is. Other values may create another job, so an
        accidental second resend is refused.
        """
        contract_type, parsed = self.registry.parse_mapping(message)
        contract_type.key(parsed)  # an invalid message reserves nothing
        resends = self.get(name).resends
        if resends != seen:
            return ResentBefore(resends=resends)
        if not self.rejects.reserve_resend(name, seen + 1, actor=actor):
            return ResentBefore(resends=seen + 1)
        why = f"resent from the rejected message {name}" + (f": {reason}" if reason else "")
        return self.enqueuer.enqueue(message, actor=actor, reason=why)

    def _view(self, reject: StoredReject, resends: int) -> RejectView:
        try:
            contract_type, message = self.registry.parse_body(reject.body)
            key = contract_type.key(message)
        except InvalidInputError:
            return RejectView(reject=reject, job_key=None, resends=resends)
        return RejectView(reject=reject, job_key=key, resends=resends)


def _json_object(text: str) -> dict[str, Json] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
