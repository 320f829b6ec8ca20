"""Resolves a group of items side by side; one that fails never stops its neighbours."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from oncely.domain.errors import BadInputError, UnavailableError
from oncely.domain.keys import JobKey, job_type_of
from oncely.services.deadline import Deadline
from oncely.services.find_due import Item
from oncely.services.reconcile import GONE, Reconciler, Resolution
from oncely.services.tell import Teller, Telling

# What a job of an unknown type may take: no provider is asked for it.
_SHORT: Final = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class Handled:
    """What became of one item; neither `done` nor `error`: there was no time left for it."""

    key: JobKey
    done: Resolution | None = None
    telling: Telling | None = None
    error: Exception | None = None


@dataclass(frozen=True, kw_only=True)
class GroupResolver:
    """Resolves the items of one invocation, and returns only when every thread has ended."""

    reconciler: Reconciler
    teller: Teller
    at_once: int = 10

    def resolve(
        self,
        items: Sequence[Item],
        *,
        deadline: Deadline,
        dry_run: bool = False,
        at_once: int | None = None,
    ) -> list[Handled]:
        """Resolve each item for which there is time; what is left stays due."""

        def one(item: Item) -> Handled:
            return self._one(item, deadline, dry_run=dry_run)

        threads = min(at_once or self.at_once, len(items))
        if threads <= 1:
            return [one(item) for item in items]
        with ThreadPoolExecutor(max_workers=threads) as pool:
            return list(pool.map(one, items))

    def _one(self, item: Item, deadline: Deadline, *, dry_run: bool) -> Handled:
        key = item.key
        try:
            if not deadline.allows(self._time_needed(key)):
                return Handled(key=key)
            done = self.reconciler.resolve(
                key, message=item.message, asked_for=item.asked_for, dry_run=dry_run
            )
            return Handled(key=key, done=done, telling=self._tell(done) if done.alert else None)
        except Exception as error:  # noqa: BLE001  # its neighbours go on, and the sweep lists it
            if not dry_run:
                self._make_room(key)
            return Handled(key=key, error=error)

    def _time_needed(self, key: JobKey) -> timedelta:
        try:
            return self.reconciler.registry.contract(job_type_of(key)).time_needed()
        except BadInputError:
            return _SHORT

    def _tell(self, done: Resolution) -> Telling:
        if done.outcome != GONE:
            return self.teller.tell(done.key)
        if not self.teller.gone(done.key, done.reason):
            # No row stays due for it, so this is the only trace.
            raise UnavailableError(
                f"nobody could be told that {done.key} has no row: {done.reason}"
            )
        return Telling.TOLD

    def _make_room(self, key: JobKey) -> None:
        """Let what cannot be looked at wait for a while: it must not stand before all others."""
        with suppress(Exception):  # it is listed as failed anyway, and stays due
            row = self.reconciler.store.get(key)
            if row is not None and row.due_at is not None:
                self.reconciler.hold(row)
