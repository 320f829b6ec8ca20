"""Logs and metrics: one record for each delivery, made in the handler's own thread."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit, single_metric

from oncely import lambda_init, signals
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.text import safe_line
from oncely.lambda_init import once
from oncely.services.outcomes import Broken, Conflict, Orphaned, Same

if TYPE_CHECKING:
    # Each function imports its own service; this module would bring it the others' as well.
    from oncely.domain.gaps import Gap
    from oncely.services.dead_letters import Received
    from oncely.services.reconcile import Resolution
    from oncely.services.repair_order import Outcome as Repair
    from oncely.services.repair_order import RepairOrder
    from oncely.services.resolve_group import Handled
    from oncely.services.tell import Telling
    from oncely.services.work_batch import Worked

# The stack names itself in POWERTOOLS_SERVICE_NAME; this stands for it where there is none.
SERVICE: Final = "oncely"

Handler: TypeAlias = Callable[[dict[str, Any], Any], dict[str, Any]]


@dataclass(frozen=True)
class Telemetry:
    """Both of them, made once per execution environment."""

    logger: Logger
    metrics: Metrics

    @classmethod
    def create(cls) -> "Telemetry":
        """Read Powertools' own variables; never at import."""
        service = os.environ.get("POWERTOOLS_SERVICE_NAME", SERVICE)
        return cls(
            Logger(service=service),
            Metrics(namespace=signals.NAMESPACE, service=service),
        )

    def around(self, handler: Handler) -> Handler:
        """The handler with its context in every log line, and its metrics flushed."""
        counted = self.metrics.log_metrics(handler)
        observed: Handler = self.logger.inject_lambda_context(counted)
        return observed

    def record(self, worked: "Sequence[Worked]") -> None:
        """Tell what became of each delivery."""
        for one in worked:
            self._record(one)

    def measure(self, metric: str, time: timedelta) -> None:
        """Give a length of time to a metric, in seconds."""
        self.metrics.add_metric(name=metric, unit=MetricUnit.Seconds, value=time.total_seconds())

    def found(self, *, due: int, asking: int, busy: int) -> None:
        """Tell how much a sweep looks at, and how much work our own rows ask for."""
        self.logger.info("sweep", extra={"items": due, "asking": asking, "busy_shards": busy})

    def sweep_done(self, *, seconds: float) -> None:
        """Tell that a sweep came to its end, and how long it took; silence is an alarm."""
        self.metrics.add_metric(name=signals.SWEEP_DONE, unit=MetricUnit.Seconds, value=seconds)

    def handled(self, group: "Sequence[Handled]", *, dry_run: bool) -> None:
        """Tell what became of each job of a group."""
        for one in group:
            if one.error is not None:
                self.could_not_resolve(one.key, one.error)
            if one.done is not None:
                self.resolved(one.done, dry_run=dry_run)
            if one.telling is not None:
                self.told_of(one.key, one.telling)

    def could_not_look(self, trouble: str) -> None:
        """Tell that work which was never sent could not be looked for."""
        self.logger.error("could not look for unserved work", extra={"error": safe_line(trouble)})
        self._count(signals.BROKEN)

    def resolved(self, done: "Resolution", *, dry_run: bool) -> None:
        """Tell what the reconciler did about one job."""
        level = "error" if done.new is Status.NEEDS_REVIEW else "info"
        getattr(self.logger, level)(
            "job resolved",
            extra={
                "job_key": done.key,
                "outcome": done.outcome,
                "old": done.old,
                "new": done.new,
                "reason": safe_line(done.reason),
                "dry_run": dry_run,
            },
        )
        self._count(signals.RESOLVED)
        if done.new is Status.NEEDS_REVIEW and done.old is not Status.NEEDS_REVIEW and not dry_run:
            self._count(signals.NEEDS_REVIEW)
        if done.unreachable:
            self._count(signals.PROVIDER_UNREACHABLE)

    def told_of(self, key: JobKey, telling: "Telling") -> None:
        """Tell whether a person was told of a job; one who could not be is told later."""
        if telling.delivered:
            self.logger.info("alert", extra={"job_key": key, "outcome": str(telling)})
            return
        self.logger.error("alert not delivered", extra={"job_key": key})
        self._count(signals.NOT_TOLD)

    def could_not_resolve(self, key: str, error: Exception) -> None:
        """Tell that one job of a sweep could not be looked at; it stays due."""
        self.logger.error("job not looked at", exc_info=error, extra={"job_key": key})

    def swept(self, *, not_looked_at: int) -> None:
        """Tell of how many jobs of a sweep nobody could say anything."""
        self.metrics.add_metric(
            name=signals.NOT_LOOKED_AT, unit=MetricUnit.Count, value=float(not_looked_at)
        )

    def dead_letters(self, received: "Sequence[Received]") -> None:
        """Tell what became of dead letters."""
        for letter in received:
            fields = {
                "job_key": letter.job_key,
                "message_id": letter.message_id,
                "fate": str(letter.fate),
                "reason": safe_line(letter.reason),
            }
            self.logger.error("dead letter", extra=fields)
            self._count(signals.DEAD_LETTERS)

    def repaired(self, order: "RepairOrder", outcome: "Repair") -> None:
        """Tell what a person did, or tried to do, about a job."""
        self.logger.info(
            "repair",
            extra={
                "job_key": order.key,
                "repair": str(order.repair),
                "actor": order.actor,
                "reason": safe_line(order.reason),
                "dry_run": order.dry_run,
                "outcome": type(outcome).__name__,
            },
        )

    def set_up(self, told: str) -> None:
        """Tell what a first setup did with the job table."""
        self.logger.info("first setup", extra={"outcome": told})

    def table_refused(self, reason: str) -> None:
        """Tell that the job table may not hold the proofs, so nothing was looked at."""
        self.logger.error("job table refused", extra={"reason": reason})
        self._count(signals.TABLE_REFUSED)

    def exported(self, actor: str, asked: Mapping[str, str]) -> None:
        """Tell who took jobs out in bulk."""
        self.logger.info("jobs exported", extra={"actor": actor, "asked": dict(asked)})

    def not_published(self, key: str, error: Exception) -> None:
        """Tell that an ended job could not be published yet."""
        self.logger.error("not published", extra={"job_key": key, "error": safe_line(str(error))})
        self._count(signals.NOT_PUBLISHED)

    def history_written(self, *, changes: int, objects: int) -> None:
        """Log how much of the stream a batch of the history held."""
        self.logger.info("history", extra={"changes": changes, "objects": objects})

    def history_gap(self, gap: "Gap") -> None:
        """Log that a part of the stream did not reach the history."""
        self.logger.error("history gap", extra={"gap": gap.to_dict()})

    def _record(self, one: "Worked") -> None:
        told_as = signals.told(one.outcome)
        fields = {
            "message_id": one.delivery.message_id,
            "receives": one.delivery.receives,
            "reply": type(one.reply).__name__,
            **signals.fields(one.outcome),
        }
        if told_as.same:
            fields["deduplication"] = str(told_as.same)
        # Nobody foresaw what broke: only its trace tells where to look.
        broke = one.outcome.error if isinstance(one.outcome, Broken) else None
        getattr(self.logger, told_as.level)(told_as.event, exc_info=broke, extra=fields)
        self._count(told_as.metric, told_as.same)
        if isinstance(one.outcome, Conflict | Orphaned):
            self._count(signals.REJECTED)
        if one.error is not None:
            self.logger.error("reply failed", exc_info=one.error, extra=fields)
            self._count(signals.REPLY_FAILED)

    def _count(self, metric: str, same: Same | None = None) -> None:
        self.metrics.add_metric(name=metric, unit=MetricUnit.Count, value=1)
        if same is None:
            return
        # Once more with its reason as a dimension: a metric of its own, so both can be alarmed on.
        with single_metric(
            name=metric, unit=MetricUnit.Count, value=1, namespace=signals.NAMESPACE
        ) as by_reason:
            by_reason.add_dimension(name="service", value=self.metrics.service)
            by_reason.add_dimension(name="reason", value=str(same))


@cache
def telemetry() -> Telemetry:
    """The telemetry of this execution environment."""
    return Telemetry.create()


def observed(function: Handler) -> Handler:
    """Dress a handler, which is the last that its module makes; elsewhere at its first call."""

    @once
    def dressed() -> Handler:
        return telemetry().around(function)

    @wraps(function)
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ANN401  # Lambda's
        return dressed()(event, context)

    lambda_init.end()
    return handler
