"""EventBridge: tells other systems that a job has ended."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from oncely.aws.client_config import AMBIGUOUS_ERRORS, error_code, is_retryable
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.times import format_time

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

SOURCE: Final = "oncely"


@dataclass(frozen=True)
class EventBridgeBus:
    """Publishes one event for each end; `job_key` and `version` tell a repetition."""

    client: "EventBridgeClient"
    name: str

    def publish(self, job: Job) -> None:
        """Put the event; a bus that does not take it raises, so that it is tried again."""
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
        try:
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
        except AMBIGUOUS_ERRORS as error:
            raise UnavailableError(f"EventBridge gave no answer: {error}") from error
        except ClientError as error:
            if is_retryable(error):
                raise UnavailableError(f"EventBridge could not take it now: {error}") from error
            raise NotConfiguredError(
                f"event bus {self.name!r} cannot be used ({error_code(error)}): check its name"
            ) from error
        if answer.get("FailedEntryCount"):
            raise UnavailableError(
                f"event bus {self.name!r} did not take the event of {job.job_key}"
            )
