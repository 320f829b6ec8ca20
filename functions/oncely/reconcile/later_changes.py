"""Records what happens to an effect after its job has ended: a refund by hand, or a dispute.

The job's status and the business rows stay as they are. The team decides what they should show.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from oncely.alerts import alert_texts
from oncely.contracts.contract import AnyContract
from oncely.core.effect_outcomes import LookupFailed, NotFound
from oncely.core.errors import UnavailableError
from oncely.core.hints import DropReason, HintAction
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey, job_type_of
from oncely.core.repairs import note
from oncely.core.store import VersionConflict
from oncely.core.table_guard import TableBlocked
from oncely.plugins.events import (
    EffectChange,
    ProviderEvent,
    action_for_change,
    is_recorded,
)
from oncely.plugins.provider import AnyProvider
from oncely.reconcile.resolve_group import GroupResolver

# Each retry lost a race with another writer; such races are rare.
_MAX_CAS_RETRIES: Final = 5


def calls_provider(
    contracts: Iterable[type[AnyContract]], key: JobKey, plugin: AnyProvider
) -> bool:
    """Whether it is the key of a job that calls this provider, not of another item."""
    types = {one.job_type: one for one in contracts}
    contract_type = types.get(job_type_of(key))
    return contract_type is not None and plugin in contract_type.resources.providers


@dataclass(frozen=True, kw_only=True)
class LaterChanges:
    """Asks the provider about a change, and records it once: alert, event, then evidence."""

    resolver: GroupResolver
    stack: str = ""

    def receive(self, plugin: AnyProvider, event: ProviderEvent) -> HintAction | DropReason:
        """Record a change. Raises UnavailableError if the provider cannot be asked now."""
        reconciler = self.resolver.reconciler
        table = reconciler.guard.check()
        if isinstance(table, TableBlocked):
            raise UnavailableError(table.reason)
        change = plugin.read_change(reconciler.dependencies.provider(plugin), event)
        if isinstance(change, LookupFailed):
            raise UnavailableError(change.reason)
        if isinstance(change, NotFound):
            return DropReason.OTHER_OBJECT
        if not calls_provider(reconciler.registry, change.job_key, plugin):
            return DropReason.NO_JOB
        row = reconciler.store.get(change.job_key)
        dropped = action_for_change(row, change, deployment=table.deployment)
        if row is None or dropped is not None:
            return dropped or DropReason.NO_JOB
        self._record(row, change)
        return HintAction.RECORD

    def _record(self, row: JobRow, change: EffectChange) -> None:
        """Write the evidence last: after an earlier crash, the event repeats all steps."""
        alert = alert_texts.later_change_alert(row, change, stack=self.stack)
        if not change.by_us and not self.resolver.alerter.notifier().notify(alert):
            raise UnavailableError(f"the alert about {row.job_key} was not delivered")
        reconciler = self.resolver.reconciler
        reconciler.publisher.event_bus.publish_change(row, change)
        self._note(row, change)

    def _note(self, row: JobRow, change: EffectChange) -> None:
        """Add the evidence, unless a duplicate of the event already has."""
        reconciler = self.resolver.reconciler
        noted = note(change.reason)
        for _ in range(_MAX_CAS_RETRIES):
            after = noted.apply_to(row, now=reconciler.clock.now(), actor=reconciler.actor)
            match reconciler.store.swap(row, after):
                case VersionConflict(row=JobRow() as newer) if not is_recorded(newer, change):
                    row = newer
                case _:
                    return
        raise UnavailableError(f"the row of {row.job_key} kept changing")
