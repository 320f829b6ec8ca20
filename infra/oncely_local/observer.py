"""Reads the state of the demo: queues and tables from the engine, the ledger from the sandbox."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from oncely.aws.s3_history_reader import S3HistoryReader
from oncely.domain.lifecycle import Status
from oncely.providers.sandbox import Ledger
from oncely.providers.stripe.sandbox.ledger import IntentStatus
from oncely_local.stack import LocalStack
from oncely_local.verdict import DemoFinalState, JobSnapshot
from oncely_local.workload import Workload

QUEUE_OUTPUTS: Final = {
    "payments": "PaymentsQueueUrl",
    "sync": "SyncQueueUrl",
    "mail": "MailQueueUrl",
    "dead letters": "DeadLetterQueueUrl",
    "rejects": "RejectsQueueUrl",
}
_WAITING: Final = "ApproximateNumberOfMessages"
_IN_FLIGHT: Final = "ApproximateNumberOfMessagesNotVisible"
_DELAYED: Final = "ApproximateNumberOfMessagesDelayed"
_READ_CONCURRENCY: Final = 8


@dataclass(frozen=True)
class QueueDepth:
    """The number of messages in a queue."""

    waiting: int
    in_flight: int
    delayed: int


@dataclass(frozen=True)
class LedgerTotals:
    """Totals of the providers' ledger."""

    charges: int = 0
    declined: int = 0
    processing: int = 0
    double_charges: int = 0
    mails: int = 0
    contacts_written: int = 0
    faults: Counter[str] = field(default_factory=Counter)  # injected faults, by kind

    @classmethod
    def from_ledger(cls, ledger: Ledger) -> "LedgerTotals":
        by_job = Counter(one.metadata.get("job_key", "") for one in ledger.charges)
        waiting = sum(one.status is IntentStatus.PROCESSING for one in ledger.intents)
        return cls(
            charges=by_job.total(),
            declined=len(ledger.attempts) - by_job.total() - waiting,
            processing=waiting,
            double_charges=sum(times - 1 for times in by_job.values()),
            mails=len(ledger.mails),
            contacts_written=sum(one.writes for one in ledger.contacts),
            faults=Counter(one.fault.replace("_", " ") for one in ledger.requests if one.fault),
        )


@dataclass
class Observer:
    """Reads the state of one stack."""

    stack: LocalStack
    _rejects: dict[str, str] = field(default_factory=dict)  # bodies by object key, read once

    def depths(self) -> dict[str, QueueDepth]:
        outputs = self.stack.outputs
        return {name: self._depth(outputs[output]) for name, output in QUEUE_OUTPUTS.items()}

    def ledger_totals(self) -> LedgerTotals:
        return LedgerTotals.from_ledger(self.stack.sandbox.ledger)

    def jobs(self) -> dict[str, JobSnapshot]:
        """All jobs, by key. Items without a status are not jobs."""
        rows = self._scan(
            "JobsTableName",
            ProjectionExpression="job_key, #status, last_error, due_at",
            ExpressionAttributeNames={"#status": "status"},
        )
        seen = (
            JobSnapshot(
                key=row["job_key"]["S"],
                status=Status(row["status"]["S"]),
                reason=row.get("last_error", {}).get("S", ""),
                is_published="due_at" not in row,
            )
            for row in rows
            if "status" in row
        )
        return {job.key: job for job in seen}

    def final_state(self, workload: Workload) -> DemoFinalState:
        ledger = self.stack.sandbox.ledger
        orders = {str(order["receipt_email"]): str(order["order_id"]) for order in workload.orders}
        return DemoFinalState(
            requested=frozenset(workload.jobs),
            jobs=self.jobs(),
            charges=Counter(one.metadata.get("job_key", "") for one in ledger.charges),
            mails=Counter(
                orders.get(address, address) for one in ledger.mails for address in one.to
            ),
            contacts=Counter(
                own for one in ledger.contacts if (own := one.properties.get("oncely_id"))
            ),
            paid=self._values("OrdersTableName", "order_id", status="paid"),
            imported=self._values("RecordsTableName", "source_id", source="hubspot"),
            to_import=frozenset(str(n) for n in range(1, workload.contacts + 1)),
            rejected=Counter(self.rejects()),
            invalid=frozenset(one.body for one in workload.invalid),
            history=self.history(),
        )

    def history(self) -> dict[str, str | None]:
        bucket = self.stack.outputs["ArchiveBucketName"]
        reader = S3HistoryReader(self.stack.account.client("s3"), bucket)
        return {key: line.status for key, line in reader.newest().items()}

    def rejects(self) -> list[str]:
        s3, bucket = self.stack.account.client("s3"), self.stack.outputs["ArchiveBucketName"]
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="rejects/")
        names = {one["Key"] for page in pages for one in page.get("Contents", [])}

        def body(name: str) -> str:
            content = json.load(s3.get_object(Bucket=bucket, Key=name)["Body"])
            return str(content["body"])

        new = sorted(names - set(self._rejects))
        with ThreadPoolExecutor(_READ_CONCURRENCY) as pool:
            self._rejects.update(zip(new, pool.map(body, new), strict=True))
        return list(self._rejects.values())

    def _depth(self, url: str) -> QueueDepth:
        found = self.stack.account.client("sqs").get_queue_attributes(
            QueueUrl=url, AttributeNames=[_WAITING, _IN_FLIGHT, _DELAYED]
        )["Attributes"]
        return QueueDepth(*(int(found.get(name, 0)) for name in (_WAITING, _IN_FLIGHT, _DELAYED)))

    def _values(self, table: str, field: str, **equal: str) -> frozenset[str]:
        rows = self._scan(table)
        wanted = (row for row in rows if all(row[name]["S"] == equal[name] for name in equal))
        return frozenset(row[field]["S"] for row in wanted)

    def _scan(self, table: str, **more: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401  # as boto3's
        pages = self.stack.account.client("dynamodb").get_paginator("scan")
        name = self.stack.outputs[table]
        for page in pages.paginate(TableName=name, ConsistentRead=True, **more):
            yield from page["Items"]
