"""The alert budget: items in the job table that every function counts in, without reading."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from oncely.alerts.budget import ALERT_WINDOW, AlertKind, CountedAlert
from oncely.aws.item_update import update_item
from oncely.core.aws_errors import translated
from oncely.core.errors import OncelyError, UnavailableError
from oncely.core.text import parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_log = logging.getLogger(__name__)
_EXPIRY_MARGIN: Final = timedelta(days=1)
# Each retry lost a race to open a window.
_MAX_RETRIES: Final = 3


@dataclass(frozen=True)
class DynamoAlertBudget:
    """Counts in the job table. No index has them, and they expire."""

    client: "DynamoDBClient"
    table: str

    def count(self, kind: AlertKind, *, now: datetime) -> CountedAlert:
        """Count an alert in the window of its kind, or open a new window."""
        until = now + ALERT_WINDOW
        written = {"now": now, "until": until, "one": 1, "expires_at": until + _EXPIRY_MARGIN}
        for _ in range(_MAX_RETRIES):
            counted, window = self._update(
                kind.key,
                "SET #until = if_not_exists(#until, :until), #expires_at = :expires_at "
                "ADD #counted :one",
                "attribute_not_exists(#job_key) OR #until > :now",
                **written,
            )
            if counted:
                return _counted(window)
            opened, new = self._update(
                kind.key,
                "SET #until = :until, #counted = :one, #expires_at = :expires_at",
                "#until <= :now",
                **written,
            )
            if opened:
                return _counted(new, before=window)
        raise UnavailableError(f"the window {kind.key} kept changing")

    def reserve(
        self, kind: AlertKind, name: str, *, now: datetime, until: datetime
    ) -> datetime | None:
        """Reserve the alert of one job. Returns the end of another reservation or alert, if any."""
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
        """Set the time before which the alert of one job is not repeated."""
        self._update(
            kind.key_of_job(name),
            "SET #until = :until, #expires_at = :expires_at",
            until=until,
            expires_at=until + _EXPIRY_MARGIN,
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


def _counted(window: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> CountedAlert:
    return CountedAlert(
        number=int(window["counted"]),
        until=parse_time(window["until"]),
        counted_before=int(before["counted"]) if before else 0,
    )
