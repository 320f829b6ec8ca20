"""Logs and metrics, emitted in the handler's own thread."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, wraps
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit, single_metric

from oncely.aws import signals
from oncely.aws.clients import THROTTLED_REQUESTS
from oncely.aws.signals import DuplicateReason
from oncely.core.keys import JobKey
from oncely.core.lifecycle import ENDED, IN_REVIEW, Status, WaitKind
from oncely.core.outcomes import (
    Duplicate,
    Ended,
    LeasedElsewhere,
    NeedsReview,
    NotRun,
    NotRunCause,
    OwnershipLost,
    Parked,
    RejectCause,
    Rejected,
    RunOutcome,
    Unknown,
)
from oncely.core.text import redacted_line
from oncely.handlers import lambda_init
from oncely.handlers.lambda_init import once

if TYPE_CHECKING:
    # Each function imports only its own service; here it would import all of them.
    from oncely.alerts.budget import AlertDelivery
    from oncely.gates.gate import GateSnapshot, Pause
    from oncely.history.gaps import HistoryGap
    from oncely.operate.bulk_repairer import BulkRun
    from oncely.operate.repair_request import RepairOutcome as Repair
    from oncely.operate.repair_request import RepairRequest
    from oncely.reconcile.event_intake import ReceivedEvent
    from oncely.reconcile.reconciler import Resolution
    from oncely.reconcile.resolve_group import HandledItem
    from oncely.reconcile.webhooks import WebhookResponse
    from oncely.run.dead_letters import HandledDeadLetter
    from oncely.run.process_batch import ProcessedDelivery

# If POWERTOOLS_SERVICE_NAME is not set.
SERVICE: Final = "oncely"

# The outcomes that a worker counts, too.
_OUTCOME_METRICS: Final[Mapping[Status | None, str]] = {
    Status.FINISHED: signals.FINISHED,
    Status.FAILED: signals.FAILED,
    Status.NEEDS_REVIEW: signals.NEEDS_REVIEW,
}

Handler: TypeAlias = Callable[[dict[str, Any], Any], dict[str, Any]]


@dataclass(frozen=True)
class Telemetry:
    """The logger and metrics of an execution environment."""

    logger: Logger
    metrics: Metrics

    @classmethod
    def create(cls) -> "Telemetry":
        service = os.environ.get("POWERTOOLS_SERVICE_NAME", SERVICE)
        return cls(Logger(service=service), Metrics(namespace=signals.NAMESPACE, service=service))

    def wrap_handler(self, handler: Handler) -> Handler:
        observed: Handler = self.logger.inject_lambda_context(self.metrics.log_metrics(handler))
        return observed

    def record_deliveries(self, deliveries: "Sequence[ProcessedDelivery]") -> None:
        for one in deliveries:
            self._record_delivery(one)

    def add_duration(self, metric: str, duration: timedelta) -> None:
        seconds = duration.total_seconds()
        self.metrics.add_metric(name=metric, unit=MetricUnit.Seconds, value=seconds)

    def sweep_started(self, *, due_count: int, requested_count: int, busy_shards: int) -> None:
        extra = {"items": due_count, "asking": requested_count, "busy_shards": busy_shards}
        self.logger.info("sweep", extra=extra)

    def sweep_finished(self, *, seconds: float) -> None:
        """Record that a sweep ended, and how long it took. A missing metric raises an alarm."""
        self.metrics.add_metric(name=signals.SWEEP_FINISHED, unit=MetricUnit.Seconds, value=seconds)

    def group_handled(self, group: "Sequence[HandledItem]", *, dry_run: bool) -> None:
        for one in group:
            if one.error is not None:
                self.resolve_failed(one.key, one.error)
            if one.resolution is not None:
                self.job_resolved(one.resolution, dry_run=dry_run)
            if one.alert_delivery is not None:
                self.alert_attempted(one.key, one.alert_delivery)

    def missing_job_scan_failed(self, error: str) -> None:
        self.logger.error("missing jobs not searched", extra={"error": redacted_line(error)})
        self._count(signals.PROCESSING_ERROR)

    def job_resolved(self, resolution: "Resolution", *, dry_run: bool) -> None:
        level = "error" if resolution.to_status in IN_REVIEW else "info"
        getattr(self.logger, level)(
            "job resolved",
            extra={
                "job_key": resolution.key,
                "outcome": resolution.outcome,
                "old": resolution.from_status,
                "new": resolution.to_status,
                "reason": redacted_line(resolution.reason),
                "dry_run": dry_run,
            },
        )
        self._count(signals.RESOLVED)
        is_change = resolution.to_status != resolution.from_status
        if is_change and not dry_run and (metric := _OUTCOME_METRICS.get(resolution.to_status)):
            self._count(metric)
        if resolution.lookup_failed:
            self._count(signals.PROVIDER_UNREACHABLE)

    def alert_attempted(self, key: JobKey, delivery: "AlertDelivery") -> None:
        if delivery.has_failed:
            self.logger.error("alert not delivered", extra={"job_key": key})
            self._count(signals.ALERT_FAILED)
            return
        self.logger.info("alert", extra={"job_key": key, "outcome": str(delivery)})

    def resolve_failed(self, key: str, error: Exception) -> None:
        self.logger.error("job not processed", exc_info=error, extra={"job_key": key})

    def resolve_failures_counted(self, *, failed_count: int) -> None:
        self.metrics.add_metric(
            name=signals.RESOLVE_FAILED, unit=MetricUnit.Count, value=float(failed_count)
        )

    def dead_letters_handled(self, received: "Sequence[HandledDeadLetter]") -> None:
        for letter in received:
            fields = {
                "job_key": letter.job_key,
                "message_id": letter.message_id,
                "fate": str(letter.outcome),
                "reason": redacted_line(letter.reason),
            }
            self.logger.error("dead letter", extra=fields)
            self._count(signals.DEAD_LETTERS)

    def events_received(self, received: "Sequence[ReceivedEvent]") -> None:
        """Log and count provider events: those that were used, and those that were dropped."""
        for one in received:
            fields = {"outcome": str(one.outcome or "not processed")}
            if one.event is not None:
                fields["event_type"] = one.event.type
                fields["event_id"] = redacted_line(one.event.event_id)
                fields["object_id"] = redacted_line(one.event.object_id)
            if one.error is not None:
                self.logger.error("event not processed", exc_info=one.error, extra=fields)
                self._count(signals.PROCESSING_ERROR)
                continue
            self.logger.info("event", extra=fields)
            if not one.stays_in_queue:
                self._count(signals.EVENTS_DROPPED if one.is_dropped else signals.EVENTS_USED)
            if one.resolved is not None:
                self.group_handled([one.resolved], dry_run=False)

    def webhook_answered(self, provider: str, response: "WebhookResponse") -> None:
        """Log a request at the HTTPS endpoint. One that is not signed is counted."""
        fields = {"provider": redacted_line(provider), "answer": response.name.lower()}
        self.logger.info("webhook", extra=fields)
        if response >= HTTPStatus.BAD_REQUEST:
            self._count(signals.WEBHOOK_REFUSED)

    def throttles_counted(self, count: int) -> None:
        """Record requests that DynamoDB throttled, including those whose retry succeeded."""
        with single_metric(
            name=signals.THROTTLED, unit=MetricUnit.Count, value=count, namespace=signals.NAMESPACE
        ) as throttled:
            throttled.add_dimension(name="service", value=self.metrics.service)

    def repair_attempted(self, order: "RepairRequest", outcome: "Repair") -> None:
        """Log a repair. Its reason is in the row, where an erasure reaches it."""
        self.logger.info(
            "repair",
            extra={
                "job_key": redacted_line(order.key),
                "repair": str(order.repair),
                "actor": order.actor,
                "dry_run": order.dry_run,
                "outcome": type(outcome).__name__,
            },
        )

    def pause_changed(self, pause: "Pause", *, actor: str) -> None:
        """Log a pause or resume. Its reason is in the gate table."""
        action = "pause" if pause.current is not None else "resume"
        self.logger.info("pause", extra={"target": pause.target, "action": action, "actor": actor})

    def gates_checked(self, snapshot: "GateSnapshot", *, now: datetime) -> None:
        """Record the number of pauses, and how long each circuit has been open."""
        paused = sum(one.current is not None for one in snapshot.pauses.values())
        if paused:  # a metric costs money while it is emitted
            self.metrics.add_metric(name=signals.PAUSED, unit=MetricUnit.Count, value=float(paused))
        open_since: dict[str, datetime] = {}
        for name, state in snapshot.gates.items():
            if state.opened_at is not None:
                provider = name.partition(":")[0]
                first = open_since.get(provider, state.opened_at)
                open_since[provider] = min(first, state.opened_at)
        for provider, since in sorted(open_since.items()):
            self.logger.error(
                "provider does not respond", extra={"provider": provider, "since": str(since)}
            )
            with single_metric(
                name=signals.CIRCUIT_OPEN,
                unit=MetricUnit.Seconds,
                value=max((now - since).total_seconds(), 1.0),
                namespace=signals.NAMESPACE,
            ) as opened:
                opened.add_dimension(name="service", value=self.metrics.service)
                opened.add_dimension(name="provider", value=provider)

    def bulk_run_started(self, run: "BulkRun") -> None:
        """Log a bulk run. Its selection is in the archive, and each job has its own evidence."""
        fields = {"run_id": run.run_id, "repair": str(run.repair), "jobs": len(run.jobs)}
        self.logger.info("bulk run", extra={**fields, "actor": run.actor})

    def reject_resent(self, name: str, job_key: str, *, actor: str) -> None:
        """Log who resent a rejected message. Its new job has the reason."""
        fields = {"reject": name, "job_key": job_key, "actor": actor}
        self.logger.info("reject resent", extra=fields)

    def first_setup_finished(self, deployment: str) -> None:
        self.logger.info("first setup", extra={"deployment": deployment})

    def table_blocked(self, reason: str) -> None:
        self.logger.error("job table blocked", extra={"reason": reason})
        self._count(signals.TABLE_BLOCKED)

    def publish_failed(self, key: str, error: Exception) -> None:
        extra = {"job_key": key, "error": redacted_line(str(error))}
        self.logger.error("not published", extra=extra)
        self._count(signals.PUBLISH_FAILED)

    def history_written(self, *, lines: int, objects: int) -> None:
        self.logger.info("history", extra={"lines": lines, "objects": objects})

    def history_gap(self, gap: "HistoryGap") -> None:
        self.logger.error("history gap", extra={"gap": gap.to_dict()})

    def _record_delivery(self, one: "ProcessedDelivery") -> None:
        signal = signal_for(one.outcome)
        fields = {
            "message_id": one.delivery.message_id,
            "receives": one.delivery.receive_count,
            "reply": type(one.action).__name__,
            **log_fields(one.outcome),
        }
        if signal.duplicate_reason:
            fields["deduplication"] = str(signal.duplicate_reason)
        # Unexpected errors are logged with their stack trace.
        cause = one.outcome.error if isinstance(one.outcome, NotRun) else None
        getattr(self.logger, signal.level)(signal.event, exc_info=cause, extra=fields)
        self._count(signal.metric, signal.duplicate_reason)
        if isinstance(one.outcome, Rejected) and signal.metric != signals.REJECTED:
            self._count(signals.REJECTED)
        if one.error is not None:
            self.logger.error("message action failed", exc_info=one.error, extra=fields)
            self._count(signals.ACK_FAILED)

    def _count(self, metric: str, duplicate_reason: DuplicateReason | None = None) -> None:
        self.metrics.add_metric(name=metric, unit=MetricUnit.Count, value=1)
        if duplicate_reason is None:
            return
        # Again with the reason as a dimension, which is a metric of its own.
        with single_metric(
            name=metric, unit=MetricUnit.Count, value=1, namespace=signals.NAMESPACE
        ) as by_reason:
            by_reason.add_dimension(name="service", value=self.metrics.service)
            by_reason.add_dimension(name="reason", value=str(duplicate_reason))


@dataclass(frozen=True)
class OutcomeSignal:
    """How an outcome is logged and counted."""

    event: str
    metric: str
    level: str = "info"
    duplicate_reason: DuplicateReason | None = None  # set for a duplicate message


def _duplicate(reason: DuplicateReason, level: str = "info") -> OutcomeSignal:
    return OutcomeSignal("message deduplicated", signals.DEDUPLICATED, level, reason)


_ENDED_SIGNALS: Final = {
    Status.FINISHED: OutcomeSignal("job finished", signals.FINISHED),
    Status.FAILED: OutcomeSignal("job failed", signals.FAILED),
    Status.CANCELLED: OutcomeSignal("job cancelled", signals.CANCELLED),
}
_PARKED_SIGNALS: Final[Mapping[WaitKind, OutcomeSignal]] = {
    WaitKind.BUSINESS_ROW: OutcomeSignal("waits for business rows", signals.WAITING),
    WaitKind.GATE: OutcomeSignal("held by the gate", signals.HELD),
    WaitKind.SECRET: OutcomeSignal(
        "provider rejects our credentials", signals.CREDENTIALS_REJECTED, "error"
    ),
    WaitKind.RETRY: OutcomeSignal("nothing sent", signals.NOTHING_SENT, "warning"),
    WaitKind.RUN_AT: OutcomeSignal("runs later", signals.SCHEDULED),
    WaitKind.NEXT_PART: OutcomeSignal("job continued", signals.CONTINUED),
}
_REJECTED_SIGNALS: Final[Mapping[RejectCause, OutcomeSignal]] = {
    RejectCause.CONFLICT: _duplicate(DuplicateReason.CONFLICT, "error"),
    RejectCause.ROW_MISSING: OutcomeSignal("row missing", signals.ROW_MISSING, "error"),
    RejectCause.INVALID: OutcomeSignal("message rejected", signals.REJECTED, "error"),
}
_NOT_RUN_SIGNALS: Final[Mapping[NotRunCause, OutcomeSignal]] = {
    NotRunCause.NO_TIME: OutcomeSignal("too little time, redelivered", signals.NOT_STARTED),
    NotRunCause.TABLE_BLOCKED: OutcomeSignal("job table blocked", signals.TABLE_BLOCKED, "error"),
    NotRunCause.ERROR: OutcomeSignal("message not processed", signals.PROCESSING_ERROR, "error"),
}


def signal_for(outcome: RunOutcome) -> OutcomeSignal:
    """The log event and metric of an outcome."""
    match outcome:
        case Ended(status=status):
            return _ENDED_SIGNALS[status]
        case Parked(kind=kind):
            return _PARKED_SIGNALS[kind]
        case Duplicate(status=status) if status in ENDED:
            return _duplicate(DuplicateReason.FINISHED)
        case Duplicate() | LeasedElsewhere():
            return _duplicate(DuplicateReason.IN_PROGRESS)
        case Unknown():
            return OutcomeSignal("job unknown", signals.UNKNOWN, "warning")
        case NeedsReview():
            return OutcomeSignal("job needs review", signals.NEEDS_REVIEW, "error")
        case OwnershipLost():
            return OutcomeSignal("ownership lost", signals.OWNERSHIP_LOST, "warning")
        case Rejected(cause=cause):
            return _REJECTED_SIGNALS[cause]
        case NotRun(cause=cause):
            return _NOT_RUN_SIGNALS[cause]
        case unreachable:
            assert_never(unreachable)


def log_fields(outcome: RunOutcome) -> dict[str, Any]:
    """The fields of an outcome under the names that log queries use; never a secret."""
    logged: dict[str, Any] = {}
    for name in ("job_key", "job_type", "reason", "status", "until", "result", "progress"):
        if (value := getattr(outcome, name, None)) is not None:
            logged[name] = dict(value) if isinstance(value, Mapping) else str(value)
    if "reason" in logged:  # a provider's text may contain an email address
        logged["reason"] = redacted_line(logged["reason"])
    if isinstance(outcome, NotRun) and outcome.error is not None:
        logged["error"] = redacted_line(f"{type(outcome.error).__name__}: {outcome.error}")
    return logged


@cache
def telemetry() -> Telemetry:
    """The telemetry of this execution environment."""
    return Telemetry.create()


def instrumented(function: Handler) -> Handler:
    """Instrument a handler, which must be the last definition of its module."""

    @once
    def wrapped() -> Handler:
        return telemetry().wrap_handler(function)

    @wraps(function)
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ANN401  # Lambda's
        try:
            return wrapped()(event, context)
        finally:
            if THROTTLED_REQUESTS.count:
                telemetry().throttles_counted(THROTTLED_REQUESTS.take())

    lambda_init.end()
    return handler
