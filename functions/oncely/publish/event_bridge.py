"""EventBridge: publishes that a job has ended, or that its effect changed later."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import translated
from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.text import format_time
from oncely.plugins.events import EffectChange

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

SOURCE: Final = "oncely"


@dataclass(frozen=True)
class EventBus:
    """Publishes one event per ended job. `job_key` and `version` identify duplicates."""

    client: "EventBridgeClient"
    name: str

    def publish(self, job: JobRow) -> None:
        """Put the event. Raises if the bus does not accept it, so that it is retried."""
        detail = {
            "job_key": job.job_key,
            "job_type": job.job_type,
            "status": job.status,
            "version": job.version,
            "customer_id": job.customer_id,
            "provider_ref": job.provider_ref,
            "result": job.result,
            "at": format_time(job.updated_at),
        }
        self._put(job, f"job {job.status}", detail)

    def publish_change(self, job: JobRow, change: EffectChange) -> None:
        """Put the event of a later change. `details` are the same in a duplicate."""
        detail = {
            "job_key": job.job_key,
            "job_type": job.job_type,
            "status": job.status,
            "customer_id": job.customer_id,
            "provider_ref": job.provider_ref,
            "change": change.kind,
            "details": dict(change.details),
            "respond_by": None if change.respond_by is None else format_time(change.respond_by),
        }
        self._put(job, f"effect {change.kind}", detail)

    def _put(self, job: JobRow, type_: str, detail: Mapping[str, object]) -> None:
        with translated("the event bus", name=self.name, check="its name and the grants"):
            answer = self.client.put_events(
                Entries=[
                    {
                        "EventBusName": self.name,
                        "Source": SOURCE,
                        "DetailType": type_,
                        "Detail": json.dumps(detail),
                    }
                ]
            )
        if answer.get("FailedEntryCount"):
            raise UnavailableError(f"the event bus did not accept the event of {job.job_key}")
