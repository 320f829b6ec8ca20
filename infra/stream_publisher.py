"""The stream consumer: what each ended job owes is sent, none skipped."""

import json
from datetime import timedelta
from typing import Final

from constructs import Construct

from infra.job_function import JobFunction
from infra.stream_mapping import failure_queue, read_stream
from infra.surroundings import Surroundings
from infra.table_plans import JOBS
from oncely.domain.lifecycle import ENDED

BATCH_SIZE: Final = 100
# A poisoned record holds its shard up; after this it goes to a person, and the row to a sweep.
RETRIES: Final = 10
OLDEST: Final = timedelta(hours=6)


class StreamPublisher(Construct):
    """What it misses, the reconciler redoes: an ended row keeps its due time until then."""

    def __init__(self, scope: Construct, id_: str, *, around: Surroundings) -> None:
        super().__init__(scope, id_)
        stage, tables = around.stage, around.tables
        self.missed = failure_queue(self, "Missed", around=around)
        self.publisher = JobFunction(
            self,
            "Publish",
            entry="publish_ended",
            description="sends what ended jobs owe: follow-ups and events",
            stage=stage,
            layers=around.layers,
            timeout=stage.reconciler_timeout_seconds,
            environment={
                **tables.variables(),
                **around.publishing_variables(),
                **stage.provider_settings(),
            },
        )
        self.publisher.allow("dynamodb:GetItem", "dynamodb:UpdateItem", on=[tables.arn(JOBS)])
        around.let_publish(self.publisher)
        read_stream(
            self.publisher,
            around=around,
            failures=self.missed,
            batch_size=BATCH_SIZE,
            max_retries=RETRIES,
            max_age=OLDEST,
            pattern=_ended_and_due(),
        )


def _ended_and_due() -> str:
    """Rows that have ended and still have a due time; the rest concerns nobody else."""
    image = {"status": {"S": sorted(ENDED)}, "due_at": {"S": [{"exists": True}]}}
    return json.dumps({"dynamodb": {"NewImage": image}})
