"""The alert budget: items in the job table that every function counts in, without reading."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from oncely.alerts.budget import (
    DIGEST_GRACE,
    MAX_EXAMPLES,
    AlertCause,
    AlertDigest,
    AlertKind,
    AlertLimits,
    examples_by_slot,
)
from oncely.aws.item_update import update_item
from oncely.core.aws_errors import translated
from oncely.core.due import DUE_SHARDS, DueAction, due_shard
from oncely.core.errors import OncelyError, UnavailableError
from oncely.core.keys import JobKey
from oncely.core.row_items import DUE, due_partition_name
from oncely.core.text import parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_log = logging.getLogger(__name__)
_EXPIRY_MARGIN: Final = timedelta(days=1)
# Each retry lost a race to open a window.
_MAX_RETRIES: Final = 3


@dataclass(frozen=True)
class DynamoAlertBudget:
    """Counts in the job table. Only a digest is in an index, through which a sweep finds it."""

    client: "DynamoDBClient"
    table: str
    limits: AlertLimits = field(default_factory=AlertLimits)
    due_shards: int = DUE_SHARDS

    def admit(self, kind: AlertKind, names: Sequence[str], *, now: datetime) -> bool:
        for _ in range(_MAX_RETRIES):
            counted, window = self._count(kind, now)
            if counted:
                return True
            until = parse_time(window["until"])
            if until > now:
                self._add_to_digest(kind, names, until=until)
                return False
            if self._open(kind, now):
                return True
        raise UnavailableError(f"the window {kind.key} kept changing")

    def reserve(
        self, kind: AlertKind, name: str, *, now: datetime, until: datetime
    ) -> datetime | None:
        reserved, row = self._update(
            kind.key_of_job(name),
            "SET #until = :until, #expires_at = :expires_at",
            "attribute_not_exists(#job_key) OR #until <= :now",
            now=now,
            until=until,
            expires_at=until + _EXPIRY_MARGIN,
        )
        return None if reserved else parse_time(str(row["until"]))

    def keep(self, kind: AlertKind, name: str, *, until: datetime) -> None:
        self._update(
            kind.key_of_job(name),
            "SET #until = :until, #expires_at = :expires_at",
            until=until,
            expires_at=until + _EXPIRY_MARGIN,
        )

    def take_digest(self, key: str, *, now: datetime, until: datetime) -> AlertDigest | None:
        taken, row = self._update(
            key, "SET #due_at = :until", "#due_at <= :now", now=now, until=until
        )
        return _to_digest(row) if taken else None

    def close_digest(self, digest: AlertDigest, *, now: datetime) -> bool:
        closed, _ = self._update(
            digest.key,
            "SET #expires_at = :expires_at REMOVE #due, #due_at",
            "#due_at = :due_at AND #counted = :counted",
            due_at=digest.due_at,
            counted=digest.count,
            expires_at=now + _EXPIRY_MARGIN,
        )
        return closed

    def _count(self, kind: AlertKind, now: datetime) -> tuple[bool, Mapping[str, object]]:
        """Count in a window that is new or open. Otherwise returns the window that is there."""
        until = now + self.limits.window
        return self._update(
            kind.key,
            "SET #until = if_not_exists(#until, :until), #expires_at = :expires_at "
            "ADD #counted :one",
            "attribute_not_exists(#job_key) OR (#until > :now AND #counted < :max)",
            now=now,
            until=until,
            one=1,
            max=self.limits.max_alerts,
            expires_at=until + _EXPIRY_MARGIN,
        )

    def _open(self, kind: AlertKind, now: datetime) -> bool:
        """Replace a window that has ended."""
        until = now + self.limits.window
        opened, _ = self._update(
            kind.key,
            "SET #until = :until, #counted = :one, #expires_at = :expires_at",
            "#until <= :now",
            now=now,
            until=until,
            one=1,
            expires_at=until + _EXPIRY_MARGIN,
        )
        return opened

    def _add_to_digest(self, kind: AlertKind, names: Sequence[str], *, until: datetime) -> None:
        key = kind.key_of_digest(until)
        fields: dict[str, Any] = {
            "cause": kind.cause,
            "job_type": kind.job_type,
            "reason": kind.reason,
            "since": until - self.limits.window,
            "until": until,
            DUE: due_partition_name(DueAction.PUBLISH, due_shard(JobKey(key), self.due_shards)),
            **{f"example_{slot}": name for slot, name in examples_by_slot(names).items()},
        }
        sets = ", ".join(f"#{name} = :{name}" for name in fields)
        # It has no expiry until it is sent.
        self._update(
            key,
            f"SET {sets}, #due_at = if_not_exists(#due_at, :due_at) "
            "ADD #counted :counted REMOVE #expires_at",
            due_at=until + DIGEST_GRACE,
            counted=len(names),
            **fields,
        )

    def _update(
        self,
        key: str,
        update: str,
        condition: str = "",
        **values: Any,  # noqa: ANN401  # of a field
    ) -> tuple[bool, Mapping[str, object]]:
        """Update an item. Returns whether the condition held, and the item.

        An error is only logged: the caller then sends the alert.
        """
        try:
            with translated(f"the item {key}", name=self.table, check="the job table"):
                return update_item(
                    self.client,
                    self.table,
                    {"job_key": key},
                    update=update,
                    condition=condition,
                    values=values,
                )
        except OncelyError:
            _log.exception("alert budget not available")
            raise


def _to_digest(row: Mapping[str, object]) -> AlertDigest:
    examples = {slot: row.get(f"example_{slot}") for slot in range(MAX_EXAMPLES)}
    return AlertDigest(
        kind=AlertKind(
            cause=AlertCause(str(row["cause"])),
            job_type=str(row["job_type"]),
            reason=str(row["reason"]),
        ),
        since=parse_time(row["since"]),
        until=parse_time(row["until"]),
        count=int(str(row["counted"])),
        examples={slot: str(name) for slot, name in examples.items() if name is not None},
        due_at=parse_time(row["due_at"]),
    )
