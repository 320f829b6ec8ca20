"""Receives provider events: checks where each comes from, and passes on its content."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self, TypeAlias, assert_never

from oncely.contracts.contract import providers_of
from oncely.contracts.settings import Settings
from oncely.core.errors import InvalidInputError
from oncely.core.hints import DropReason, HintAction
from oncely.core.keys import JobKey
from oncely.plugins.events import (
    ChangedLater,
    ClaimReport,
    EventEnvelope,
    JobHint,
    ProviderEvent,
)
from oncely.plugins.provider import AnyProvider
from oncely.reconcile.event_hints import EventHints
from oncely.reconcile.event_proofs import EventProofs
from oncely.reconcile.find_due_work import SweepItem
from oncely.reconcile.later_changes import LaterChanges, calls_provider
from oncely.reconcile.resolve_group import GroupResolver, HandledItem

EventOutcome: TypeAlias = HintAction | DropReason


@dataclass(frozen=True, kw_only=True)
class ReceivedEvent:
    """The result of one event. Without an outcome, an error keeps it in the queue."""

    outcome: EventOutcome | None = None
    event: ProviderEvent | None = None
    resolved: HandledItem | None = None  # the lookup that the event brought forward
    error: Exception | None = None

    @property
    def stays_in_queue(self) -> bool:
        """Whether the event is received again later."""
        return self.outcome in {None, HintAction.WAIT}

    @property
    def is_dropped(self) -> bool:
        """Whether the event changed nothing."""
        return isinstance(self.outcome, DropReason)


@dataclass(frozen=True, kw_only=True)
class EventIntake:
    """Receives all provider events, and trusts nothing in them."""

    plugins: Mapping[str, AnyProvider]  # by the source of their events
    account: str  # of AWS, in which this runs
    resolver: GroupResolver
    changes: LaterChanges

    @classmethod
    def from_settings(cls, settings: Settings, resolver: GroupResolver) -> Self:
        """Read the events of those providers whose settings turn events on."""
        settings.require("event_account", "queue_url")
        plugins = {
            rule.source: plugin
            for plugin in providers_of(resolver.reconciler.registry)
            if plugin.name in settings.providers
            for rule in plugin.all_event_rules(settings.providers[plugin.name])
        }
        return cls(
            plugins=plugins,
            account=str(settings.event_account),
            resolver=resolver,
            changes=LaterChanges(resolver=resolver, stack=settings.stack_name),
        )

    def receive(self, body: str, *, deadline: datetime) -> ReceivedEvent:
        """Handle one message of the intake queue. Any error keeps it there."""
        read = self._read(body)
        if isinstance(read, DropReason):
            return ReceivedEvent(outcome=read)
        plugin, event = read
        try:
            return self._handle(plugin, event, deadline)
        except Exception as error:  # noqa: BLE001  # the other events of the batch continue
            return ReceivedEvent(event=event, error=error)

    def _read(self, body: str) -> tuple[AnyProvider, ProviderEvent] | DropReason:
        try:
            envelope = EventEnvelope.parse(body)
        except InvalidInputError:
            return DropReason.UNREADABLE
        if envelope.account != self.account:
            return DropReason.OTHER_ACCOUNT
        plugin = self.plugins.get(envelope.source)
        if plugin is None:
            return DropReason.OTHER_SOURCE
        event = plugin.read_event(envelope)
        return event if isinstance(event, DropReason) else (plugin, event)

    def _handle(
        self, plugin: AnyProvider, event: ProviderEvent, deadline: datetime
    ) -> ReceivedEvent:
        match event.content:
            case JobHint() as hint:
                return self._take_hint(plugin, event, hint, deadline)
            case ClaimReport() as report:
                return self._take_report(plugin, event, report, deadline)
            case ChangedLater():
                outcome = self.changes.receive(plugin, event)
                return ReceivedEvent(outcome=outcome, event=event)
            case unreachable:
                assert_never(unreachable)

    def _take_hint(
        self, plugin: AnyProvider, event: ProviderEvent, hint: JobHint, deadline: datetime
    ) -> ReceivedEvent:
        if not calls_provider(self.resolver.reconciler.registry, hint.job_key, plugin):
            return ReceivedEvent(outcome=DropReason.NO_JOB, event=event)
        outcome = EventHints(self.resolver.reconciler).receive(
            hint, event, provider=plugin.profile.name, deadline=deadline
        )
        if outcome is not HintAction.ASK_NOW:
            return ReceivedEvent(outcome=outcome, event=event)
        return self._resolve(event, hint.job_key, outcome, deadline)

    def _take_report(
        self, plugin: AnyProvider, event: ProviderEvent, report: ClaimReport, deadline: datetime
    ) -> ReceivedEvent:
        if not calls_provider(self.resolver.reconciler.registry, report.job_key, plugin):
            return ReceivedEvent(outcome=DropReason.NO_JOB, event=event)
        proofs = EventProofs(self.resolver.reconciler)
        outcome = proofs.receive(report, event, provider=plugin.profile.name)
        if outcome not in {HintAction.ASK_NOW, HintAction.CHECK_END}:
            return ReceivedEvent(outcome=outcome, event=event)
        return self._resolve(event, report.job_key, outcome, deadline)

    def _resolve(
        self, event: ProviderEvent, key: JobKey, outcome: EventOutcome, deadline: datetime
    ) -> ReceivedEvent:
        """Do what is due for the row now. If this fails, the next sweep does it."""
        (resolved,) = self.resolver.resolve([SweepItem(key=key)], deadline=deadline)
        return ReceivedEvent(outcome=outcome, event=event, resolved=resolved)
