"""Reads the state of the demo: queues and tables from the engine, the ledger from the sandbox."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

from oncely.aws.objects import S3Objects
from oncely.core.lifecycle import Status
from oncely.gates.table import GateTable
from oncely.history.archive import HistoryArchive
from oncely.history.verify import verify_history
from oncely.operate.rejects import REJECT_SUFFIX, REJECTS_PREFIX
from oncely.testing.sandbox import EffectState, Sandbox
from oncely_local.stack import LocalStack
from oncely_local.verdict import DemoFinalState, JobSnapshot, types_with_effect
from oncely_local.workload import CRM, Workload

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
    """Totals of the providers' ledgers."""

    effects: Counter[tuple[str, EffectState]] = field(default_factory=Counter)  # by kind
    doubles: Counter[str] = field(default_factory=Counter)  # second effects of a key, by kind
    faults: Counter[str] = field(default_factory=Counter)  # injected faults, by kind

    @classmethod
    def from_sandbox(cls, sandbox: Sandbox) -> "LedgerTotals":
        effects, requests = sandbox.effects(), sandbox.ledger.requests
        done = {(one.kind, one.key) for one in effects if one.state is EffectState.DONE}
        counts = Counter((one.kind, one.state) for one in effects)
        return cls(
            effects=counts,
            doubles=Counter(kind for kind, state in counts.elements() if state is EffectState.DONE)
            - Counter(kind for kind, _ in done),
            faults=Counter(one.fault.replace("_", " ") for one in requests if one.fault),
        )

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for kind, _ in self.effects})

    def done(self, kind: str) -> int:
        return self.effects[kind, EffectState.DONE]

    def count(self, state: EffectState) -> int:
        return sum(times for (_, one), times in self.effects.items() if one is state)


@dataclass
class Observer:
    """Reads the state of one stack."""

    stack: LocalStack
    _rejects: dict[str, str] = field(default_factory=dict)  # bodies by object key, read once

    def depths(self) -> dict[str, QueueDepth]:
        outputs = {
            **self.stack.project.queue_outputs,
            "dead letters": "DeadLetterQueueUrl",
            "rejects": "RejectsQueueUrl",
        }
        return {name: self._depth(self.stack.outputs[one]) for name, one in outputs.items()}

    def paused(self) -> list[str]:
        """What was paused from another terminal."""
        client = self.stack.account.client("dynamodb")
        pauses = GateTable(client, self.stack.outputs["GatesTableName"]).read().pauses
        return [one.target for one in pauses.values() if one.current is not None]

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
        archive = HistoryArchive(self._objects())
        state = DemoFinalState(
            requested=frozenset(workload.jobs),
            jobs=self.jobs(),
            effects=self.stack.sandbox.effects(),
            with_effect=types_with_effect(self.stack.project.jobs),
            rejected=Counter(self.rejects()),
            invalid=frozenset(one.body for one in workload.invalid),
            history={key: line.status for key, line in archive.newest().items()},
            broken_rules=tuple(str(one) for one in verify_history(archive.lines())),
        )
        if not self.stack.project.is_clone:
            return state
        return replace(
            state,
            paid=self._values("OrdersTableName", "order_id", status="paid"),
            imported=self._values("RecordsTableName", "source_id", source=CRM),
            to_import=frozenset(str(n) for n in range(1, workload.contacts + 1)),
        )

    def _objects(self) -> S3Objects:
        bucket = self.stack.outputs["ArchiveBucketName"]
        return S3Objects(self.stack.account.client("s3"), bucket)

    def rejects(self) -> list[str]:
        objects = self._objects()
        # Not the index by job.
        names = {key for key, _ in objects.list(REJECTS_PREFIX) if key.endswith(REJECT_SUFFIX)}

        def body(name: str) -> str:
            return str(json.loads(objects.read(name))["body"])

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
