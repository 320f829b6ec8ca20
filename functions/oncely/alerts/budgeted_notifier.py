"""Sends alerts to operators within the budget of their kind.

Items in the job table, which every function counts in without reading, are the budget.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oncely.alerts import alert_texts
from oncely.alerts.budget import (
    ALERT_ONCE_FOR,
    ALERT_WINDOW,
    MAX_SUMMARIES,
    Alert,
    AlertCause,
    AlertDelivery,
    AlertKind,
    CountedAlert,
)
from oncely.aws.item_update import update_item
from oncely.core.aws_errors import translated
from oncely.core.decide import SWEEP_HOLD
from oncely.core.errors import OncelyError, UnavailableError
from oncely.core.schedule import Clock
from oncely.core.text import parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from oncely.aws.clients import AwsClients

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_MAX_SUBJECT_LENGTH: Final = 100  # the limit of SNS, which accepts only ASCII
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
        """Update an item. Returns whether the condition held, and the item."""
        with translated(f"the item {key}", name=self.table, check="the job table"):
            return update_item(
                self.client,
                self.table,
                {"job_key": key},
                update=update,
                condition=condition,
                values=values,
            )


@dataclass(frozen=True)
class SnsNotifier:
    """Publishes alerts to the alert topic."""

    clients: "AwsClients"  # the client is made for the first alert
    topic_arn: str

    def notify(self, alert: Alert) -> bool:
        """Publish an alert. Returns False if it fails: the job stays due, and a sweep retries."""
        printable = "".join(c if c.isprintable() else " " for c in alert.subject)
        subject = printable.encode("ascii", "replace").decode()[:_MAX_SUBJECT_LENGTH]
        try:
            check = "that this role may publish to it"
            with translated("the alert topic", name=self.topic_arn, check=check):
                self.clients.sns.publish(
                    TopicArn=self.topic_arn, Subject=subject, Message=alert.text
                )
        except OncelyError:
            _log.exception("alert not delivered", extra={"jobs": alert.names})
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class BudgetedNotifier:
    """The notifier of all services. If the counts cannot be read, the alert is sent."""

    channel: Callable[[Alert], bool]
    budget: DynamoAlertBudget
    clock: Clock
    max_alerts: int  # of one kind in a window

    def notify(self, alert: Alert) -> bool:
        """Send or count an alert without a review. Returns False if it cannot be delivered now."""
        if alert.kind is not None and alert.once:
            return self._notify_once(alert, alert.kind)
        delivery, _ = self.send(alert)
        return not delivery.has_failed

    def send(self, alert: Alert) -> tuple[AlertDelivery, datetime | None]:
        """Send an alert, unless the budget of its kind is used up: then it is only counted.

        Returns the result, and until when the budget is used up.

        The last alert of a window says that the next ones are not sent, and the first one of the
        next window how many those were.
        """
        if (kind := alert.kind) is not None:
            now = self.clock.now()
            limit = MAX_SUMMARIES if kind.cause is AlertCause.SUMMARY else self.max_alerts
            counted = _fail_open(lambda: self.budget.count(kind, now=now))
            if counted is not None and counted.number > limit:
                return AlertDelivery.OVER_BUDGET, counted.until
            if counted is not None:
                alert = alert_texts.with_budget(alert, kind, counted, limit=limit)
        return AlertDelivery.DELIVERED if self.channel(alert) else AlertDelivery.FAILED, None

    def _notify_once(self, alert: Alert, kind: AlertKind) -> bool:
        """Reserve the alert before sending it. A crash leaves a reservation that ends soon."""
        (job,) = alert.names
        now = self.clock.now()
        until = now + SWEEP_HOLD
        held_until = _fail_open(lambda: self.budget.reserve(kind, job, now=now, until=until))
        if held_until is not None:
            # A short hold is a reservation, whose holder may fail to send the alert.
            return held_until > until
        delivery, _ = self.send(alert)
        delivered = not delivery.has_failed
        kept_until = now + ALERT_ONCE_FOR if delivered else now
        # If this fails, the alert may be repeated after the reservation.
        _fail_open(lambda: self.budget.keep(kind, job, until=kept_until))
        return delivered


def _fail_open(ask: Callable[[], _T]) -> _T | None:
    """Ask the budget. If it cannot be asked, send: too many alerts are better than none."""
    try:
        return ask()
    except Exception:  # noqa: BLE001  # whatever is wrong with the counts, the alert is sent
        _log.exception("alert budget not available")
        return None


def _counted(window: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> CountedAlert:
    return CountedAlert(
        number=int(window["counted"]),
        until=parse_time(window["until"]),
        counted_before=int(before["counted"]) if before else 0,
    )
