"""New rows as PartiQL inserts, which never replace a row. A producer needs no other permission.

IAM cannot require a condition expression, so `dynamodb:PutItem` would let a producer erase a proof.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from oncely.core.aws_errors import translated
from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.row_items import Attributes, serialize_field, serialize_job
from oncely.core.store import Created, CreateResult, JobStore, interpret_create
from oncely.core.text import format_time, parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Every job type has a dot, so no job key can begin like this. The job type follows, by which
# producers are told apart.
WINDOW_KEY_PREFIX: Final = "unique:"
_EXPIRY_MARGIN: Final = timedelta(days=1)
# Each retry lost a race for the window.
_MAX_RETRIES: Final = 3


@dataclass(frozen=True, kw_only=True)
class UniqueWindow:
    """A period in which only one job of a type and this name may be enqueued, until it starts."""

    name: str
    now: datetime
    until: datetime


@dataclass(frozen=True)
class WindowTaken:
    """A window that another job holds."""

    holder: JobKey


@dataclass(frozen=True)
class _WindowChanged:
    """The window changed since it was read."""


@dataclass(frozen=True)
class JobInserter:
    """Inserts rows and windows into the job table."""

    client: "DynamoDBClient"
    job_store: JobStore

    def insert(self, job: JobRow) -> CreateResult:
        """Insert a row. If one exists, read it: the error of an insert does not contain it."""

        def send() -> CreateResult:
            self.client.execute_statement(**self._insert_row(job))
            return Created(job)

        return self.job_store.conditional_write(job.job_key, send, partial(interpret_create, job))

    def insert_unique(
        self, job: JobRow, window: UniqueWindow, *, replacing: JobKey | None = None
    ) -> CreateResult | WindowTaken:
        """Insert a row together with its window, if that is free, over, or `replacing`'s."""
        key = f"{WINDOW_KEY_PREFIX}{job.job_type}:{window.name}"
        held: Mapping[str, Any] | None = None
        for _ in range(_MAX_RETRIES):
            values = window_values(job, window)
            write = self._update(key, values, held) if held else self._insert(key, values)
            result = self._insert_with(job, write)
            if not isinstance(result, _WindowChanged):
                return result
            held = self._read_window(key)
            if held is not None:
                holder = JobKey(held["holder"]["S"])
                is_open = parse_time(held["until"]["S"]) > window.now
                if is_open and holder not in (job.job_key, replacing):
                    return WindowTaken(holder)
        raise UnavailableError(f"the window {window.name} kept changing; try again")

    def _insert_with(self, job: JobRow, window_write: Any) -> CreateResult | _WindowChanged:  # noqa: ANN401  # the SDK's own form
        """Insert a row in one transaction with a write of its window."""
        statements: list[Any] = [self._insert_row(job), window_write]

        def transact() -> CreateResult | _WindowChanged:
            self.client.execute_transaction(TransactStatements=statements)
            return Created(job)

        def cancelled(_: Sequence[Mapping[str, Any]]) -> CreateResult | _WindowChanged:
            # The reasons hold no items. An existing row is the answer, whoever has the window.
            return seen(self.job_store.read(job.job_key)) or _WindowChanged()

        def seen(row: Attributes | None) -> CreateResult | _WindowChanged | None:
            return interpret_create(job, row)

        return self.job_store.conditional_write(job.job_key, transact, seen, cancelled)

    def _insert_row(self, job: JobRow) -> Any:  # noqa: ANN401  # the SDK's own form
        row = serialize_job(job, due_shards=self.job_store.due_shards)
        return self._insert(job.job_key, {n: row[n] for n in row if n != "job_key"})

    def _insert(self, key: str, values: Mapping[str, Any]) -> Any:  # noqa: ANN401  # the SDK's own form
        names = ", ".join(f"'{name}': ?" for name in ("job_key", *values))
        return {
            "Statement": f'INSERT INTO "{self.job_store.table}" VALUE {{{names}}}',
            "Parameters": [{"S": key}, *values.values()],
        }

    def _update(self, key: str, values: Mapping[str, Any], held: Mapping[str, Any]) -> Any:  # noqa: ANN401  # the SDK's own form
        """Replace the window that was read, if it has not changed."""
        sets = " ".join(f'SET "{name}" = ?' for name in values)
        return {
            "Statement": f'UPDATE "{self.job_store.table}" {sets} WHERE "job_key" = ? '
            'AND "holder" = ? AND "until" = ?',
            "Parameters": [*values.values(), {"S": key}, held["holder"], held["until"]],
        }

    def _read_window(self, key: str) -> Mapping[str, Any] | None:
        table = self.job_store.table
        with translated(f"the window {key}", name=table, check="the job table"):
            return self.client.get_item(
                TableName=table, Key={"job_key": {"S": key}}, ConsistentRead=True
            ).get("Item")


def window_values(job: JobRow, window: UniqueWindow) -> dict[str, Any]:
    """The attributes of a window, without its key."""
    return {
        "holder": {"S": job.job_key},
        "until": {"S": format_time(window.until)},
        "expires_at": serialize_field("expires_at", window.until + _EXPIRY_MARGIN),
    }
