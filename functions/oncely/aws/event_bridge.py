"""EventBridge: publishes that a job has ended."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncely.aws.errors import translated
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.text import format_time

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

SOURCE: Final = "oncely"


@dataclass(frozen=True)
class EventBridgeBus:
    """Publishes one event per end. `job_key` and `version` identify duplicates."""

    client: "EventBridgeClient"
    name: str

    def publish(self, job: Job) -> None:
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
        with translated(f"event bus {self.name!r}", check="its name and the grants"):
            answer = self.client.put_events(
                Entries=[
                    {
                        "EventBusName": self.name,
                        "Source": SOURCE,
                        "DetailType": f"job {job.status}",
                        "Detail": json.dumps(detail),
                    }
                ]
            )
        if answer.get("FailedEntryCount"):
            raise UnavailableError(
                f"event bus {self.name!r} did not accept the event of {job.job_key}"
            )
