"""Logs and metrics, emitted in the handler's own thread."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit, single_metric

from oncely import lambda_init, signals
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.text import redacted_line
from oncely.lambda_init import once
from oncely.run.outcomes import (
    AwaitingResolution,
    Conflict,
    Continued,
    Duplicate,
    DuplicateReason,
    Failed,
    Finished,
    InternalError,
    InvalidMessage,
    LeasedElsewhere,
    NeedsReview,
    NotAttempted,
    NotStarted,
    OwnershipLost,
    RowMissing,
    RunOutcome,
    TableFenced,
    Unknown,
)

if TYPE_CHECKING:
    # Each function imports only its own service; here it would import all of them.
    from oncely.domain.gaps import HistoryGap
    from oncely.operate.repair_request import RepairOutcome as Repair
    from oncely.operate.repair_request import RepairRequest
    from oncely.reconcile.reconciler import Resolution
    from oncely.reconcile.resolve_group import HandledItem
    from oncely.run.dead_letters import HandledDeadLetter
    from oncely.run.process_batch import ProcessedDelivery
    from oncely.run.review_alerts import AlertDelivery

# If POWERTOOLS_SERVICE_NAME is not set.
SERVICE: Final = "oncely"

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
        level = "error" if resolution.to_status is Status.NEEDS_REVIEW else "info"
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
        if (
            resolution.to_status is Status.NEEDS_REVIEW
            and resolution.from_status is not Status.NEEDS_REVIEW
            and not dry_run
        ):
            self._count(signals.NEEDS_REVIEW)
        if resolution.lookup_failed:
            self._count(signals.PROVIDER_UNREACHABLE)

    def alert_attempted(self, key: JobKey, delivery: "AlertDelivery") -> None:
        if delivery.is_complete:
            self.logger.info("alert", extra={"job_key": key, "outcome": str(delivery)})
            return
        self.logger.error("alert not delivered", extra={"job_key": key})
        self._count(signals.ALERT_FAILED)

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

    def repair_attempted(self, order: "RepairRequest", outcome: "Repair") -> None:
        self.logger.info(
            "repair",
            extra={
                "job_key": order.key,
                "repair": str(order.repair),
                "actor": order.actor,
                "reason": redacted_line(order.reason),
                "dry_run": order.dry_run,
                "outcome": type(outcome).__name__,
            },
        )

    def first_setup_finished(self, outcome: str) -> None:
        self.logger.info("first setup", extra={"outcome": outcome})

    def table_blocked(self, reason: str) -> None:
        self.logger.error("job table blocked", extra={"reason": reason})
        self._count(signals.TABLE_BLOCKED)

    def jobs_exported(self, actor: str, query: Mapping[str, str]) -> None:
        self.logger.info("jobs exported", extra={"actor": actor, "asked": dict(query)})

    def publish_failed(self, key: str, error: Exception) -> None:
        extra = {"job_key": key, "error": redacted_line(str(error))}
        self.logger.error("not published", extra=extra)
        self._count(signals.PUBLISH_FAILED)

    def history_written(self, *, changes: int, objects: int) -> None:
        self.logger.info("history", extra={"changes": changes, "objects": objects})

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
        cause = one.outcome.error if isinstance(one.outcome, InternalError) else None
        getattr(self.logger, signal.level)(signal.event, exc_info=cause, extra=fields)
        self._count(signal.metric, signal.duplicate_reason)
        if isinstance(one.outcome, Conflict | RowMissing):
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


def signal_for(outcome: RunOutcome) -> OutcomeSignal:  # noqa: C901, PLR0912  # one case for each
    """The log event and metric of an outcome."""
    match outcome:
        case Finished():
            return OutcomeSignal("job finished", signals.FINISHED)
        case Failed():
            return OutcomeSignal("job failed", signals.FAILED)
        case Duplicate():
            return _duplicate(DuplicateReason.FINISHED)
        case LeasedElsewhere() | AwaitingResolution():
            return _duplicate(DuplicateReason.IN_PROGRESS)
        case Conflict():
            return _duplicate(DuplicateReason.CONFLICT, "error")
        case Unknown():
            return OutcomeSignal("job unknown", signals.UNKNOWN, "warning")
        case NeedsReview():
            return OutcomeSignal("job needs review", signals.NEEDS_REVIEW, "error")
        case NotAttempted(credentials_rejected=True):
            return OutcomeSignal(
                "provider rejects our credentials", signals.CREDENTIALS_REJECTED, "error"
            )
        case NotAttempted():
            return OutcomeSignal("nothing sent", signals.NOTHING_SENT, "warning")
        case Continued():
            return OutcomeSignal("job continued", signals.CONTINUED)
        case OwnershipLost():
            return OutcomeSignal("ownership lost", signals.OWNERSHIP_LOST, "warning")
        case RowMissing():
            return OutcomeSignal("row missing", signals.ROW_MISSING, "error")
        case NotStarted():
            return OutcomeSignal("too little time, redelivered", signals.NOT_STARTED)
        case TableFenced():
            return OutcomeSignal("job table blocked", signals.TABLE_BLOCKED, "error")
        case InvalidMessage():
            return OutcomeSignal("message rejected", signals.REJECTED, "error")
        case InternalError():
            return OutcomeSignal("message not processed", signals.PROCESSING_ERROR, "error")
        case unreachable:
            assert_never(unreachable)


def log_fields(outcome: RunOutcome) -> dict[str, Any]:
    """The fields of an outcome under the names that log queries use; never a secret."""
    logged: dict[str, Any] = {}
    for name in ("job_key", "job_type", "reason", "status", "until", "result", "progress"):
        if hasattr(outcome, name):
            value = getattr(outcome, name)
            logged[name] = dict(value) if isinstance(value, Mapping) else str(value)
    if "reason" in logged:  # a provider's text may contain an email address
        logged["reason"] = redacted_line(logged["reason"])
    if isinstance(outcome, InternalError):
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
        return wrapped()(event, context)

    lambda_init.end()
    return handler
