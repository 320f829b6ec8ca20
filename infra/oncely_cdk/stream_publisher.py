"""The stream consumer: what each ended job owes is sent, none skipped."""

import json
from datetime import timedelta
from typing import Final

from constructs import Construct

from oncely.domain.lifecycle import ENDED
from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stream_mapping import failure_queue, read_stream
from oncely_cdk.table_schemas import JOBS

BATCH_SIZE: Final = 100
# A poisoned record holds its shard up; after this it goes to a person, and the row to a sweep.
MAX_RETRIES: Final = 10
MAX_RECORD_AGE: Final = timedelta(hours=6)


class StreamPublisher(Construct):
    """What it misses, the reconciler redoes: an ended row keeps its due time until then."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        stage, tables = shared.stage, shared.tables
        self.missed = failure_queue(self, "Missed", shared=shared)
        self.publisher = OncelyFunction(
            self,
            "Publish",
            entry="publish_ended_jobs",
            description="sends what ended jobs owe: follow-ups and events",
            stage=stage,
            layers=shared.layers,
            timeout_seconds=stage.reconciler_timeout_seconds,
            environment={
                **tables.env_vars(),
                **shared.publish_env_vars(),
                **stage.provider_env_vars(shared.required.providers),
            },
        )
        self.publisher.grant(
            "dynamodb:GetItem", "dynamodb:UpdateItem", resources=[tables.arn(JOBS)]
        )
        shared.grant_publish(self.publisher)
        read_stream(
            self.publisher,
            shared=shared,
            failures=self.missed,
            batch_size=BATCH_SIZE,
            max_retries=MAX_RETRIES,
            max_age=MAX_RECORD_AGE,
            pattern=_ended_and_due(),
        )


def _ended_and_due() -> str:
    """Rows that have ended and still have a due time; the rest concerns nobody else."""
    image = {"status": {"S": sorted(ENDED)}, "due_at": {"S": [{"exists": True}]}}
    return json.dumps({"dynamodb": {"NewImage": image}})
