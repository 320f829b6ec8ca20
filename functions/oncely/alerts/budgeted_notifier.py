"""Sends alerts within the budget of their kind."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from oncely.alerts import alert_texts
from oncely.alerts.budget import (
    ALERT_ONCE_FOR,
    MAX_SUMMARIES,
    Alert,
    AlertCause,
    AlertDelivery,
    AlertKind,
    Notifier,
)
from oncely.core.decisions import SWEEP_HOLD
from oncely.core.schedule import Clock

if TYPE_CHECKING:
    from oncely.alerts.budget_table import DynamoAlertBudget

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class BudgetedNotifier:
    """The notifier of all services. If the counts cannot be read, the alert is sent."""

    notifier: Notifier
    budget: "DynamoAlertBudget"
    clock: Clock
    max_alerts: int  # of one kind in a window

    def notify(self, alert: Alert) -> bool:
        """Send or count an alert without a review. Returns False if it cannot be delivered now."""
        if alert.kind is not None and alert.once:
            return self._notify_once(alert, alert.kind)
        return not self.send(alert).has_failed

    def send(self, alert: Alert) -> AlertDelivery:
        """Send an alert, unless the budget of its kind is used up: then it is only counted.

        The last alert of a window says that the next ones are not sent, and the first one of the
        next window how many those were.
        """
        if (kind := alert.kind) is not None:
            now = self.clock.now()
            limit = MAX_SUMMARIES if kind.cause is AlertCause.SUMMARY else self.max_alerts
            counted = _fail_open(lambda: self.budget.count(kind, now=now), default=None)
            if counted is not None and counted.number > limit:
                return AlertDelivery.OVER_BUDGET
            if counted is not None:
                alert = alert_texts.with_budget(alert, kind, counted, limit=limit)
        return AlertDelivery.DELIVERED if self.notifier.notify(alert) else AlertDelivery.FAILED

    def _notify_once(self, alert: Alert, kind: AlertKind) -> bool:
        """Reserve the alert before sending it. A crash leaves a reservation that ends soon."""
        (job,) = alert.names
        now = self.clock.now()
        until = now + SWEEP_HOLD
        held_until = _fail_open(
            lambda: self.budget.reserve(kind, job, now=now, until=until), default=None
        )
        if held_until is not None:
            # A short hold is a reservation, whose holder may fail to send the alert.
            return held_until > until
        delivered = not self.send(alert).has_failed
        with suppress(Exception):  # then it may be repeated after the reservation
            self.budget.keep(kind, job, until=now + ALERT_ONCE_FOR if delivered else now)
        return delivered


def _fail_open(ask: Callable[[], _T], *, default: _T) -> _T:
    """Ask the budget. If it cannot be asked, send: too many alerts are better than none."""
    try:
        return ask()
    except Exception:  # noqa: BLE001  # whatever is wrong with the counts, the alert is sent
        return default
