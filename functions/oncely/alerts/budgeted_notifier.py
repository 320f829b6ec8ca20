"""Sends alerts within the budget: a few of each kind individually, and the rest in a digest."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from oncely.alerts import alert_texts
from oncely.alerts.budget import ALERT_ONCE_FOR, Alert, AlertDigest, AlertKind, Notifier
from oncely.alerts.review_alerts import AlertDelivery
from oncely.core.decisions import SWEEP_HOLD
from oncely.core.schedule import Clock

_T = TypeVar("_T")


class AlertBudget(Protocol):
    """The counts of alerts, shared by all functions."""

    def admit(self, kind: AlertKind, names: Sequence[str], *, now: datetime) -> bool:
        """Count an alert. Returns False if it is part of the window's digest instead."""

    def reserve(
        self, kind: AlertKind, name: str, *, now: datetime, until: datetime
    ) -> datetime | None:
        """Reserve the alert of one job. Returns the end of another reservation or alert, if any."""

    def keep(self, kind: AlertKind, name: str, *, until: datetime) -> None:
        """Set the time before which the alert of one job is not repeated."""

    def take_digest(self, key: str, *, now: datetime, until: datetime) -> AlertDigest | None:
        """Reserve a due digest. Returns None if it is not due, or reserved by another process."""

    def close_digest(self, digest: AlertDigest, *, now: datetime) -> bool:
        """Mark a digest as sent. Returns False if alerts were counted in it since."""


@dataclass(frozen=True, kw_only=True)
class BudgetedNotifier:
    """The notifier of all services. If the counts cannot be read, the alert is sent."""

    notifier: Notifier
    budget: AlertBudget
    clock: Clock
    stack: str = ""  # the stack in the commands of digests
    archive_bucket: str = ""  # for the command in a digest of rejected messages

    def notify(self, alert: Alert) -> bool:
        """Send an alert or count it in a digest. Returns False if it cannot be delivered now."""
        if alert.kind is None:
            return self.notifier.notify(alert)
        return self._notify_once(alert, alert.kind) if alert.once else self._send(alert, alert.kind)

    def send_digest(self, key: str) -> AlertDelivery:
        """Send a digest that is due, then mark it as sent. A crash in between repeats it."""
        now = self.clock.now()
        digest = self.budget.take_digest(key, now=now, until=now + SWEEP_HOLD)
        if digest is None:
            return AlertDelivery.NOT_DUE
        alert = alert_texts.digest_alert(
            digest, stack=self.stack, archive_bucket=self.archive_bucket
        )
        if not self.notifier.notify(alert):
            return AlertDelivery.FAILED
        self.budget.close_digest(digest, now=self.clock.now())
        return AlertDelivery.DELIVERED

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
        delivered = self._send(alert, kind)
        with suppress(Exception):  # then it may be repeated after the reservation
            self.budget.keep(kind, job, until=now + ALERT_ONCE_FOR if delivered else now)
        return delivered

    def _send(self, alert: Alert, kind: AlertKind) -> bool:
        now = self.clock.now()
        is_sent = _fail_open(lambda: self.budget.admit(kind, alert.names, now=now), default=True)
        return self.notifier.notify(alert) if is_sent else True


def _fail_open(ask: Callable[[], _T], *, default: _T) -> _T:
    """Ask the budget. If it cannot be asked, send: too many alerts are better than none."""
    try:
        return ask()
    except Exception:  # noqa: BLE001  # whatever is wrong with the counts, the alert is sent
        return default
