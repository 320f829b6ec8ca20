"""Receives provider events: checks where each comes from, and does what its content allows.

A hint looks up sooner, or checks a result that it contradicts. A report is proof: it ends or
escalates its job. A later change, such as a refund by hand or a dispute, is recorded after the job
has ended: its status and the business rows stay, and the team decides what they should show.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self, TypeAlias, assert_never

from oncely.alerts import alert_texts
from oncely.contracts.job import AnyJob, providers_of
from oncely.contracts.settings import Settings
from oncely.core.ask_and_record import Question
from oncely.core.effect_outcomes import LookupFailed, NotFound
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.hints import (
    DropReason,
    HintAction,
    ReportedState,
    action_for_hint,
    after_event,
    claim_of_tag,
    ends_review,
    on_proof,
)
from oncely.core.job_row import EventMark, EventRecord, JobRow
from oncely.core.keys import MAX_ID_LENGTH, JobKey, job_type_of
from oncely.core.lifecycle import Event
from oncely.core.repairs import note
from oncely.core.store import JobStore, Swapped, VersionConflict
from oncely.core.surroundings import Hold
from oncely.core.table_guard import TableBlocked, TableOpen
from oncely.plugins.events import (
    ChangedLater,
    ClaimReport,
    EffectChange,
    EventEnvelope,
    JobHint,
    ProviderEvent,
    action_for_change,
    is_recorded,
)
from oncely.plugins.provider import AnyProvider
from oncely.reconcile.find_due_work import SweepItem
from oncely.reconcile.reconciler import Reconciler
from oncely.reconcile.resolve_group import GroupResolver, HandledItem

# Each retry lost a race with another writer of the row, of which there are few.
MAX_SAVES: Final = 5

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
    stack: str = ""  # the stack in the commands of alerts

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
            stack=settings.stack_name,
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
        reconciler, content = self.resolver.reconciler, event.content
        if not isinstance(content, ChangedLater) and not calls_provider(
            reconciler.registry, content.job_key, plugin
        ):
            return ReceivedEvent(outcome=DropReason.NO_JOB, event=event)
        table = reconciler.guard.check()
        if isinstance(table, TableBlocked):
            raise UnavailableError(table.reason)
        outcome: EventOutcome
        match content:
            case JobHint() as hint:
                outcome = receive_hint(
                    reconciler, table, hint, event, plugin.profile.name, deadline=deadline
                )
                is_due = outcome is HintAction.ASK_NOW
            case ClaimReport() as report:
                outcome = _receive_report(reconciler, table, report, event, plugin.profile.name)
                is_due = outcome in {HintAction.ASK_NOW, HintAction.CHECK_END}
            case ChangedLater():
                outcome = self._receive_change(plugin, event, table)
                return ReceivedEvent(outcome=outcome, event=event)
            case unreachable:
                assert_never(unreachable)
        if not is_due:
            return ReceivedEvent(outcome=outcome, event=event)
        # If this fails, the next sweep does it.
        (resolved,) = self.resolver.resolve([SweepItem(key=content.job_key)], deadline=deadline)
        return ReceivedEvent(outcome=outcome, event=event, resolved=resolved)

    def _receive_change(
        self, plugin: AnyProvider, event: ProviderEvent, table: TableOpen
    ) -> EventOutcome:
        """Ask the provider about a change, and record it once: alert, event, then evidence.

        Raises UnavailableError if the provider cannot be asked now.
        """
        reconciler = self.resolver.reconciler
        change = plugin.read_change(reconciler.tools.provider(plugin), event)
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
        # The evidence comes last: after an earlier crash, the event repeats all steps.
        alert = alert_texts.later_change_alert(row, change, stack=self.stack)
        if not change.by_us and not self.resolver.alerter.notifier().notify(alert):
            raise UnavailableError(f"the alert about {row.job_key} was not delivered")
        reconciler.publisher.event_bus.publish_change(row, change)
        _note_change(reconciler, row, change)
        return HintAction.RECORD


def calls_provider(contracts: Iterable[type[AnyJob]], key: JobKey, plugin: AnyProvider) -> bool:
    """Whether it is the key of a job that calls this provider, not of another item."""
    types = {one.job_type: one for one in contracts}
    contract_type = types.get(job_type_of(key))
    return contract_type is not None and plugin in contract_type.all_providers()


def receive_hint(
    reconciler: Reconciler,
    table: TableOpen,
    hint: JobHint,
    event: ProviderEvent,
    provider: str,
    *,
    deadline: datetime | None = None,
) -> EventOutcome:
    """Do what an event about a job allows. It only makes the job due, unless a lookup confirms it.

    Raises UnavailableError if the provider cannot be asked now.
    """
    if table.deployment != hint.deployment:
        return DropReason.OTHER_DEPLOYMENT
    store = reconciler.store
    for _ in range(MAX_SAVES):
        row = store.get(hint.job_key)
        action = action_for_hint(
            row, hint.reported, deployment=table.deployment, object_id=event.object_id
        )
        if row is not None and action is HintAction.CHECK_END:
            _ask_now(reconciler, row, table, reported=hint.reported, deadline=deadline)
        if row is None or action is not HintAction.ASK_NOW:
            return action
        record = EventRecord(
            at=reconciler.clock.now(),
            provider=provider,
            name=event.type,
            mark=EventMark.HINT,
            ref=event.object_id[:MAX_ID_LENGTH],
        )
        if save_event(store, row, record):
            return action
    raise _too_many_saves(hint.job_key)


def _receive_report(
    reconciler: Reconciler,
    table: TableOpen,
    report: ClaimReport,
    event: ProviderEvent,
    provider: str,
) -> EventOutcome:
    """Save a report about a claim, and do what it proves.

    Raises UnavailableError if a table cannot be read: the event stays in the queue, since a proof
    must not be lost.
    """
    for _ in range(MAX_SAVES):
        row = reconciler.store.get(report.job_key)
        if row is None:
            return DropReason.NO_JOB
        if row.deployment != table.deployment:
            return DropReason.OTHER_DEPLOYMENT
        if report.mark is not EventMark.PROOF and row.erasure_requested_at is not None:
            return DropReason.NOT_NEEDED  # its personal data was erased
        if (fence := claim_of_tag(row, report.tag, table.tag_key)) is None:
            return DropReason.OTHER_OBJECT
        record = EventRecord(
            at=reconciler.clock.now(),
            provider=provider,
            name=event.type,
            mark=report.mark,
            fence=fence,
            ref=event.object_id,
            code=report.code,
        )
        if saved := save_event(reconciler.store, row, record):
            return _act_on_report(reconciler, table, saved, record)
    raise _too_many_saves(report.job_key)


def _act_on_report(
    reconciler: Reconciler, table: TableOpen, row: JobRow, event: EventRecord
) -> HintAction:
    """Do what the events of the row prove, which every later write of it has seen."""
    if row.allows(Event.MARK_UNKNOWN):
        return HintAction.WAIT  # a proof is compared with what its worker records
    if not event.proves:
        return HintAction.KEEP
    if on_proof(row):
        reconciler.decision_writer().write(row, on_proof)
        return HintAction.CHECK_END
    if row.allows(Event.RECHECK):
        return HintAction.ASK_NOW
    if ends_review(row):
        # Its outcome may be proved now, and nothing else may contradict it.
        _ask_now(reconciler, row, table)
        return HintAction.CHECK_END
    return HintAction.KEEP


def save_event(store: JobStore, row: JobRow, event: EventRecord) -> JobRow | None:
    """Save an event on the row that was read. Returns None if the row changed since."""
    after = after_event(row, event, event.at)
    if after is None:
        return row
    swapped = store.swap(row, after)
    return swapped.job if isinstance(swapped, Swapped) else None


def _too_many_saves(key: JobKey) -> UnavailableError:
    """The event stays in the queue, and is received again."""
    return UnavailableError(f"the row of {key} changed {MAX_SAVES} times; its event is kept")


def _ask_now(
    reconciler: Reconciler,
    row: JobRow,
    table: TableOpen,
    *,
    reported: ReportedState | None = None,
    deadline: datetime | None = None,
) -> None:
    """Look up a job because of an event. Raises UnavailableError if the event must be kept."""
    try:
        contract = reconciler.registry.parse_row(row)
    except InvalidInputError:
        return  # without its message, it is not known what to look up
    question = Question(
        contract=contract.with_tools(reconciler.tools, row.provider),
        table=table,
        deadline=deadline,
        reported=reported,
    )
    asked = reconciler.inquirer().ask_and_record(row, question)
    if isinstance(asked, Hold):
        raise UnavailableError(asked.reason)
    if asked.lookup is not None and isinstance(asked.lookup.outcome, LookupFailed):
        raise UnavailableError(asked.lookup.outcome.reason)


def _note_change(reconciler: Reconciler, row: JobRow, change: EffectChange) -> None:
    """Add the evidence, unless a duplicate of the event already has."""
    noted = note(change.reason)
    for _ in range(MAX_SAVES):
        after = noted.apply_to(row, now=reconciler.clock.now(), actor=reconciler.actor)
        match reconciler.store.swap(row, after):
            case VersionConflict(row=JobRow() as newer) if not is_recorded(newer, change):
                row = newer
            case _:
                return
    raise UnavailableError(f"the row of {row.job_key} kept changing")
