"""The job store on DynamoDB. Every write is conditional."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import ClientError

from oncely.aws.errors import (
    AMBIGUOUS_ERRORS,
    error_code,
    is_ambiguous,
    is_condition_failure,
    is_throttled,
    translate,
)
from oncely.aws.expressions import business_update, claim_update, compare_and_swap_update
from oncely.aws.job_rows import deserialize_job, serialize_field, serialize_job
from oncely.domain.claims import Claim
from oncely.domain.due import DUE_SHARDS
from oncely.domain.effect_outcomes import BusinessWrite
from oncely.domain.errors import NotConfiguredError, OncelyError, UnavailableError
from oncely.domain.jobs import Job, is_our_write
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.ports import (
    AlreadyExists,
    BusinessWriteConflict,
    Claimed,
    ClaimFailed,
    ClaimResult,
    Created,
    CreateResult,
    PrerequisiteNotMet,
    Swapped,
    SwapResult,
    VersionConflict,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# The pauses before a throttled or conflicting write is retried, well inside the commit budget.
# botocore does not retry a TransactionConflict.
_RETRY_DELAYS_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)

_CONDITION_FAILED: Final = "ConditionalCheckFailed"
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class DynamoJobStore:
    """Job rows in one table, with business writes to the tables that `tables` names."""

    client: "DynamoDBClient"
    table: str
    tables: Mapping[str, str]
    due_shards: int = DUE_SHARDS
    sleep: Callable[[float], None] = time.sleep

    def get(self, key: JobKey) -> Job | None:
        try:
            row = self.client.get_item(
                TableName=self.table,
                Key={"job_key": serialize_field("job_key", key)},
                ConsistentRead=True,
            ).get("Item")
        except (*AMBIGUOUS_ERRORS, ClientError) as error:
            raise self._translate(key, error) from error
        return None if row is None else deserialize_job(row)

    def create(self, job: Job) -> CreateResult:
        def put() -> CreateResult:
            self.client.put_item(
                TableName=self.table,
                Item=serialize_job(job, due_shards=self.due_shards),
                ConditionExpression="attribute_not_exists(job_key)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
            return Created(job)

        return self.conditional_write(job.job_key, put, partial(interpret_create, job))

    def claim(self, claim: Claim) -> ClaimResult:
        if claim.requires_failed is not None:
            return self._claim_after(claim, claim.requires_failed)

        def update() -> ClaimResult:
            answer = self.client.update_item(
                TableName=self.table,
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **claim_update(claim, due_shards=self.due_shards),
            )
            return Claimed(deserialize_job(answer["Attributes"]))

        return self.conditional_write(claim.job_key, update, partial(_interpret_claim, claim))

    def compare_and_swap(
        self, before: Job, after: Job, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        if business_writes:
            return self._swap_with_business_writes(before, after, business_writes)

        def update() -> SwapResult:
            self.client.update_item(
                TableName=self.table,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **compare_and_swap_update(before, after, due_shards=self.due_shards),
            )
            return Swapped(after)

        seen = partial(_interpret_swap, before=before, after=after)
        return self.conditional_write(before.job_key, update, seen)

    def _swap_with_business_writes(
        self, before: Job, after: Job, business_writes: Sequence[BusinessWrite]
    ) -> SwapResult:
        ours: dict[str, Any] = {
            "TableName": self.table,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **compare_and_swap_update(before, after, due_shards=self.due_shards),
        }

        def transact() -> SwapResult:
            theirs: list[dict[str, Any]] = [
                {"TableName": self._business_table(write), **business_update(write)}
                for write in business_writes
            ]
            items: list[Any] = [{"Update": update} for update in (ours, *theirs)]
            token = _request_token(after)
            self.client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            return Swapped(after)

        seen = partial(_interpret_swap, before=before, after=after)

        def cancelled(reasons: Sequence[Mapping[str, Any]]) -> SwapResult | None:
            job_row, *local_rows = reasons
            if job_row.get("Code") == _CONDITION_FAILED:
                return seen(_row_from_response(job_row))
            why = [
                f"{write} ({reason.get('Code')})"
                for write, reason in zip(business_writes, local_rows, strict=False)
                if reason.get("Code") not in (None, "None")
            ]
            return BusinessWriteConflict(", ".join(why))

        try:
            return self.conditional_write(before.job_key, transact, seen, cancelled)
        except NotConfiguredError as error:
            # A business table is missing or forbidden. The job row alone may still be written.
            return BusinessWriteConflict(str(error))

    def _claim_after(self, claim: Claim, prerequisite: JobKey) -> ClaimResult:
        check = {
            "TableName": self.table,
            "Key": {"job_key": serialize_field("job_key", prerequisite)},
            "ConditionExpression": "#status = :failed",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": {":failed": serialize_field("status", Status.FAILED)},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        update = {
            "TableName": self.table,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **claim_update(claim, due_shards=self.due_shards),
        }
        items: list[Any] = [{"ConditionCheck": check}, {"Update": update}]

        def transact() -> ClaimResult:
            token = claim.owner[:36]
            self.client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            return _interpret_claim(claim, self.get(claim.job_key)) or PrerequisiteNotMet(None)

        def cancelled(reasons: Sequence[Mapping[str, Any]]) -> ClaimResult | None:
            other, ours = reasons
            if ours.get("Code") == _CONDITION_FAILED:
                return _interpret_claim(claim, _row_from_response(ours))
            return PrerequisiteNotMet(_row_from_response(other))

        seen = partial(_interpret_claim, claim)
        return self.conditional_write(claim.job_key, transact, seen, cancelled)

    def conditional_write(
        self,
        key: JobKey,
        send: Callable[[], _T],
        interpret: Callable[[Job | None], _T | None],
        cancelled: Callable[[Sequence[Mapping[str, Any]]], _T | None] | None = None,
    ) -> _T:
        """Send a write and return its result. After a lost response, the row tells it."""
        for pause in (*_RETRY_DELAYS_SECONDS, None):
            try:
                return send()
            except AMBIGUOUS_ERRORS as error:
                return self._read_back(key, interpret, error)
            except ClientError as error:
                code = error_code(error)
                result: _T | None = None
                if is_condition_failure(error):
                    result = interpret(_row_from_response(error.response))
                elif code == "TransactionCanceledException" and cancelled:
                    reasons: list[Any] = error.response.get("CancellationReasons", [])
                    result = None if _only_throttled(reasons) else cancelled(reasons)
                elif is_ambiguous(error):
                    return self._read_back(key, interpret, error)
                elif not is_throttled(code):
                    raise self._translate(key, error) from error
                if result is not None:
                    return result
            if pause is not None:
                self.sleep(pause)
        raise UnavailableError(f"DynamoDB is throttling the row of {key}; it is retried later")

    def _read_back(
        self, key: JobKey, interpret: Callable[[Job | None], _T | None], error: Exception
    ) -> _T:
        if (result := interpret(self.get(key))) is None:
            raise self._translate(key, error) from error
        return result

    def _business_table(self, write: BusinessWrite) -> str:
        try:
            return self.tables[write.table]
        except KeyError:
            raise NotConfiguredError(
                f"the table {write.table!r} is written, but the contract's resources do not name it"
            ) from None

    def _translate(self, key: JobKey, error: Exception) -> OncelyError:
        tables = {self.table, *self.tables.values()}
        check = f"that the tables {', '.join(sorted(tables))} exist and may be used"
        return translate(error, f"the row of {key}", check=check)


def interpret_create(job: Job, row: Job | None) -> CreateResult | None:
    """The result of a create from the row. Returns None if there is no row."""
    if row is None:
        return None
    # Equal with its owner token, so it is ours: the first response was lost.
    return Created(job) if row == job else AlreadyExists(row)


def _interpret_claim(claim: Claim, row: Job | None) -> ClaimResult | None:
    if row is None:
        return None
    # Our own token: the SDK retried the claim after a lost response.
    return Claimed(row) if row.owner == claim.owner else ClaimFailed(row)


def _interpret_swap(row: Job | None, *, before: Job, after: Job) -> SwapResult | None:
    if row is None:
        return VersionConflict(None)
    if is_our_write(row, before=before, write=after):
        return Swapped(after)
    expected = (before.status, before.owner, before.version)
    return None if (row.status, row.owner, row.version) == expected else VersionConflict(row)


def _only_throttled(reasons: Sequence[Mapping[str, Any]]) -> bool:
    codes = {str(reason.get("Code", "None")) for reason in reasons} - {"None"}
    return bool(codes) and all(map(is_throttled, codes))


def _row_from_response(response: Mapping[str, Any]) -> Job | None:
    row = response.get("Item")
    return deserialize_job(row) if row else None


def _request_token(after: Job) -> str:
    """The same for the same write, so that DynamoDB recognizes a retry."""
    # With key and time: not every row has an owner, and a new decision is another write.
    write = (after.job_key, after.owner, after.version, after.status, after.updated_at)
    return hashlib.sha256(repr(write).encode()).hexdigest()[:36]
