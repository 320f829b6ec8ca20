"""Resolves a group of items side by side; one that fails never stops its neighbours."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from oncely.domain.errors import InvalidInputError, UnavailableError
from oncely.domain.keys import JobKey, job_type_of
from oncely.reconcile.find_due_work import SweepItem
from oncely.reconcile.reconciler import ROW_MISSING, Reconciler, Resolution
from oncely.run.review_alerts import AlertDelivery, ReviewAlerter

# What a job of an unknown type may take: no provider is asked for it.
_UNKNOWN_TYPE_DURATION: Final = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class HandledItem:
    """What became of one item; neither `done` nor `error`: there was no time left for it."""

    key: JobKey
    resolution: Resolution | None = None
    alert_delivery: AlertDelivery | None = None
    error: Exception | None = None


@dataclass(frozen=True, kw_only=True)
class GroupResolver:
    """Resolves the items of one invocation, and returns only when every thread has ended."""

    reconciler: Reconciler
    alerter: ReviewAlerter
    concurrency: int = 10

    def resolve(
        self,
        items: Sequence[SweepItem],
        *,
        deadline: datetime,
        dry_run: bool = False,
        concurrency: int | None = None,
    ) -> list[HandledItem]:
        """Resolve each item for which there is time; what is left stays due."""

        def one(item: SweepItem) -> HandledItem:
            return self._resolve_item(item, deadline, dry_run=dry_run)

        threads = min(concurrency or self.concurrency, len(items))
        if threads <= 1:
            return [one(item) for item in items]
        with ThreadPoolExecutor(max_workers=threads) as pool:
            return list(pool.map(one, items))

    def _resolve_item(self, item: SweepItem, deadline: datetime, *, dry_run: bool) -> HandledItem:
        key = item.key
        try:
            if self.reconciler.clock.now() + self._max_duration(key) > deadline:
                return HandledItem(key=key)
            done = self.reconciler.resolve(
                key, message=item.message, on_demand=item.on_demand, dry_run=dry_run
            )
            return HandledItem(
                key=key,
                resolution=done,
                alert_delivery=self._alert(done) if done.needs_alert else None,
            )
        except Exception as error:  # noqa: BLE001  # its neighbours go on, and the sweep lists it
            if not dry_run:
                self._postpone(key)
            return HandledItem(key=key, error=error)

    def _max_duration(self, key: JobKey) -> timedelta:
        try:
            return self.reconciler.registry.contract(job_type_of(key)).max_duration()
        except InvalidInputError:
            return _UNKNOWN_TYPE_DURATION

    def _alert(self, resolution: Resolution) -> AlertDelivery:
        if resolution.outcome != ROW_MISSING:
            return self.alerter.alert_if_due(resolution.key)
        if not self.alerter.alert_orphaned_outcome(resolution.key, resolution.reason):
            # No row stays due for it, so this is the only trace.
            raise UnavailableError(
                f"nobody could be told that {resolution.key} has no row: {resolution.reason}"
            )
        return AlertDelivery.DELIVERED

    def _postpone(self, key: JobKey) -> None:
        """Let what cannot be looked at wait for a while: it must not stand before all others."""
        with suppress(Exception):  # it is listed as failed anyway, and stays due
            row = self.reconciler.store.get(key)
            if row is not None and row.due_at is not None:
                self.reconciler.hold_row(row)
