"""Records of the job table's stream as Lambda passes them, and an S3 that counts requests."""

import gzip
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from oncely.aws.objects import S3Objects
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event
from oncely.core.row_items import serialize_job
from oncely.history.archive import HistoryArchive
from oncely.history.erasure_log import ErasureLog
from oncely.history.lines import HistoryLine
from oncely.history.writer import HistoryWriter
from tests.support.fakes import FakeClock
from tests.support.stored_rows import ARCHIVE, new_account
from tests.unit.samples import NOW


@dataclass
class FakeS3:
    objects: dict[str, bytes] = field(default_factory=dict)
    puts: int = 0

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> dict[str, str]:  # noqa: N803  # S3's name
        self.puts += 1
        self.objects[Key] = Body
        return {}

    def writer(self) -> HistoryWriter:
        client: Any = self
        log = ErasureLog(S3Objects(new_account().clients.s3, ARCHIVE))
        return HistoryWriter(HistoryArchive(S3Objects(client, "archive")), log, FakeClock())

    def lines(self) -> list[HistoryLine]:
        return [
            HistoryLine.from_dict(json.loads(line))
            for name, body in self.objects.items()
            if name.endswith(".jsonl.gz")
            for line in gzip.decompress(body).decode().splitlines()
        ]


def stream_record(
    old: JobRow | None,
    new: JobRow | None,
    *,
    number: int = 1,
    at: datetime = NOW,
    removed_by: str = "",
) -> dict[str, Any]:
    """As Lambda hands it over; `by` removed the row."""
    job = new or old
    assert job is not None
    images = {"OldImage": old, "NewImage": new}
    return {
        "eventSource": "aws:dynamodb",
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/jobs/stream/2026",
        **({"userIdentity": {"type": "Service", "principalId": removed_by}} if removed_by else {}),
        "dynamodb": {
            "ApproximateCreationDateTime": at.timestamp(),
            "Keys": {"job_key": {"S": job.job_key}},
            "SequenceNumber": f"{number:021d}",
            **{name: serialize_job(row) for name, row in images.items() if row is not None},
        },
    }


def finish_job(job: JobRow, at: datetime = NOW) -> JobRow:
    return job.apply(Event.CONFIRM, now=at, actor="worker", reason="paid")
