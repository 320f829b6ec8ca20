"""The job store on DynamoDB. Every write is conditional."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oncely.core.aws_errors import (
    AWS_ERRORS,
    error_code,
    is_ambiguous,
    is_condition_failure,
    is_throttled,
    translate,
)
from oncely.core.claims import Claim, keeps_message
from oncely.core.due import DUE_SHARDS
from oncely.core.effect_outcomes import BusinessWrite
from oncely.core.erasure import erase_if_complete
from oncely.core.errors import (
    NotConfiguredError,
    OncelyError,
    UnavailableError,
    UnreadableRowError,
)
from oncely.core.expressions import (
    UNSTORABLE_VALUE_ERRORS,
    business_update,
    claim_update,
    prerequisite_check,
    same_attributes,
    swap_update,
)
from oncely.core.job_row import OUR_MARKS, JobRow, is_our_write
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event
from oncely.core.results import (
    AlreadyExists,
    BusinessWriteConflict,
    Claimed,
    ClaimFailed,
    ClaimResult,
    Created,
    CreateResult,
    ForgedRow,
    PrerequisiteNotMet,
    Swapped,
    SwapResult,
    VersionConflict,
)
from oncely.core.row_items import Attributes, deserialize_job, serialize_field, serialize_job

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# The pauses before a throttled or conflicting write is retried, well inside the commit budget.
# botocore does not retry a TransactionConflict.
_RETRY_DELAYS_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)

_CONDITION_FAILED: Final = "ConditionalCheckFailed"
_INVALID_ROW: Final = "ValidationError"  # such as one of more than 400 KB
# What a row that cannot be read holds if it is ours. A producer can insert none of these.
NOT_INSERTABLE: Final = ("fence", "min_engine", *OUR_MARKS)
# A forged row is replaced if these are as they were seen.
_COMPARED: Final = ("status", "version", "owner", *NOT_INSERTABLE)
UNREADABLE: Final = "unreadable"
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class JobStore:
    """Job rows in one table, with business writes to the tables in `tables`."""

    client: "DynamoDBClient"
    table: str
    tables: Mapping[str, str]
    table_columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # see Settings
    due_shards: int = DUE_SHARDS
    sleep: Callable[[float], None] = time.sleep

    def get(self, key: JobKey) -> JobRow | None:
        return _parse_or_none(self.read(key))

    def read(self, key: JobKey) -> Attributes | None:
        """Read a row as it is stored. Returns None if there is none."""
        try:
            return self.client.get_item(
                TableName=self.table,
                Key={"job_key": serialize_field("job_key", key)},
                ConsistentRead=True,
            ).get("Item")
        except AWS_ERRORS as error:
            raise self._translate(key, error) from error

    def create(self, job: JobRow, *, replacing: ForgedRow | None = None) -> CreateResult:
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(job_key)"}
        if replacing is not None:
            condition = same_attributes(replacing.seen, _COMPARED)

        def put() -> CreateResult:
            self.client.put_item(
                TableName=self.table,
                Item=serialize_job(job, due_shards=self.due_shards),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **condition,
            )
            return Created(job)

        return self.conditional_write(job.job_key, put, partial(interpret_create, job))

    def claim(self, claim: Claim) -> ClaimResult:
        result = self._claim(claim)
        if isinstance(result, ClaimFailed) and keeps_message(result.row, claim):
            # An update cannot set the message only if there is no fingerprint yet.
            result = self._claim(claim, keeps_message=True)
        return result

    def _claim(self, claim: Claim, *, keeps_message: bool = False) -> ClaimResult:
        update = claim_update(claim, due_shards=self.due_shards, keeps_message=keeps_message)
        if claim.requires_failed is not None:
            return self._claim_after(claim, claim.requires_failed, update)

        def send() -> ClaimResult:
            answer = self.client.update_item(
                TableName=self.table,
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **update,
            )
            claimed = parse_row(answer["Attributes"], owner=claim.owner)
            return claimed if isinstance(claimed, ForgedRow) else Claimed(claimed)

        return self._write_claim(claim, send)

    def _write_claim(
        self,
        claim: Claim,
        send: Callable[[], ClaimResult],
        cancelled: Callable[[Sequence[Mapping[str, Any]]], ClaimResult | None] | None = None,
    ) -> ClaimResult:
        seen = partial(_interpret_claim, claim)
        try:
            return self.conditional_write(claim.job_key, send, seen, cancelled)
        except NotConfiguredError as error:
            is_invalid = error_code(error.__cause__) == "ValidationException"
            if is_invalid and (forged := self._invalid_row(claim)):
                return forged
            raise

    def _invalid_row(self, claim: Claim) -> ForgedRow | None:
        """A row that refuses every claim: its version is text, or it is full."""
        row = self.read(claim.job_key)
        return _forged(row, UNREADABLE) if row and is_unmarked(row) else None

    def swap(
        self, before: JobRow, after: JobRow, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        after = erase_if_complete(after)
        if business_writes:
            try:
                theirs = [self._business_update(write) for write in business_writes]
            except UNSTORABLE_VALUE_ERRORS as error:
                kind = type(error).__name__
                why = f"a value of {', '.join(map(str, business_writes))} cannot be stored ({kind})"
                return BusinessWriteConflict(why, is_permanent=True)
            except NotConfiguredError as error:
                return BusinessWriteConflict(str(error))
            return self._swap_with_business_writes(before, after, business_writes, theirs)

        def update() -> SwapResult:
            self.client.update_item(
                TableName=self.table,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **swap_update(before, after, due_shards=self.due_shards),
            )
            return Swapped(after)

        seen = partial(_interpret_swap, before=before, after=after)
        return self.conditional_write(before.job_key, update, seen)

    def _swap_with_business_writes(
        self,
        before: JobRow,
        after: JobRow,
        business_writes: Sequence[BusinessWrite],
        theirs: Sequence[Mapping[str, Any]],
    ) -> SwapResult:
        ours: dict[str, Any] = {
            "TableName": self.table,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **swap_update(before, after, due_shards=self.due_shards),
        }

        def transact() -> SwapResult:
            items: list[Any] = [{"Update": update} for update in (ours, *theirs)]
            token = _request_token(after)
            self.client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            return Swapped(after)

        seen = partial(_interpret_swap, before=before, after=after)

        def cancelled(reasons: Sequence[Mapping[str, Any]]) -> SwapResult | None:
            job_row, *local_rows = reasons
            if job_row.get("Code") == _CONDITION_FAILED:
                return seen(_row_from_response(job_row))
            codes = [reason.get("Code") for reason in local_rows]
            why = [
                # The same words as a dry run, which finds the same conflict.
                str(write) if code == _CONDITION_FAILED else f"{write} ({code})"
                for write, code in zip(business_writes, codes, strict=False)
                if code not in (None, "None")
            ]
            return BusinessWriteConflict(", ".join(why), is_permanent=_INVALID_ROW in codes)

        try:
            return self.conditional_write(before.job_key, transact, seen, cancelled)
        except NotConfiguredError as error:
            # A business table is missing or forbidden, or values are nested too deeply for
            # DynamoDB. The job row alone may still be written.
            is_permanent = error_code(error.__cause__) == "ValidationException"
            return BusinessWriteConflict(str(error), is_permanent=is_permanent)

    def _claim_after(
        self, claim: Claim, prerequisite: JobKey, update: Mapping[str, Any]
    ) -> ClaimResult:
        check = {
            "TableName": self.table,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **prerequisite_check(claim, prerequisite),
        }
        ours = {
            "TableName": self.table,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **update,
        }
        items: list[Any] = [{"ConditionCheck": check}, {"Update": ours}]

        def transact() -> ClaimResult:
            # A claim that keeps the message is another request.
            token = hashlib.sha256(repr((claim.owner, update)).encode()).hexdigest()[:36]
            self.client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            return _interpret_claim(claim, self.read(claim.job_key)) or PrerequisiteNotMet(None)

        def cancelled(reasons: Sequence[Mapping[str, Any]]) -> ClaimResult | None:
            other, ours = reasons
            if ours.get("Code") == _CONDITION_FAILED:
                return _interpret_claim(claim, _row_from_response(ours))
            if ours.get("Code") == _INVALID_ROW and (forged := self._invalid_row(claim)):
                return forged
            return PrerequisiteNotMet(_parse_or_none(_row_from_response(other)))

        return self._write_claim(claim, transact, cancelled)

    def conditional_write(
        self,
        key: JobKey,
        send: Callable[[], _T],
        interpret: Callable[[Attributes | None], _T | None],
        cancelled: Callable[[Sequence[Mapping[str, Any]]], _T | None] | None = None,
    ) -> _T:
        """Send a write and return its result. After a lost response, read it from the row."""
        for pause in (*_RETRY_DELAYS_SECONDS, None):
            try:
                return send()
            except AWS_ERRORS as error:
                code, response = error_code(error), getattr(error, "response", None) or {}
                result: _T | None = None
                if is_condition_failure(error):
                    result = interpret(_row_from_response(response))
                elif code == "TransactionCanceledException" and cancelled:
                    reasons: list[Any] = response.get("CancellationReasons", [])
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
        self, key: JobKey, interpret: Callable[[Attributes | None], _T | None], error: Exception
    ) -> _T:
        if (result := interpret(self.read(key))) is None:
            raise self._translate(key, error) from error
        return result

    def _business_update(self, write: BusinessWrite) -> dict[str, Any]:
        try:
            table = self.tables[write.table]
        except KeyError:
            raise NotConfiguredError(
                f"the table {write.table!r} is written, but the contract's resources do not list it"
            ) from None
        update = business_update(write, self.table_columns.get(write.table, {}))
        return {"TableName": table, **update}

    def _translate(self, key: JobKey, error: Exception) -> OncelyError:
        tables = ", ".join(sorted({self.table, *self.tables.values()}))
        check = "that the job table and the business tables exist and may be used"
        return translate(error, f"the row of {key}", name=tables, check=check)


def parse_row(row: Attributes, *, owner: str = "") -> JobRow | ForgedRow:
    """The job, or the row that none of our functions wrote. Raises if it may be ours, unread.

    `owner`: a claim under this token may have been written before the row was read.
    """
    try:
        job = deserialize_job(row)
    except UnreadableRowError:
        if not is_unmarked(row, owner=owner):
            raise
        return _forged(row, UNREADABLE)
    return _forged(row, str(job.status)) if job.is_forged else job


def is_unmarked(row: Attributes, *, owner: str = "") -> bool:
    """Whether a row that cannot be read, or claimed, is forged: `JobRow.is_forged` by its names."""
    marks: tuple[str, ...] = NOT_INSERTABLE
    if (row.get("owner"), row.get("fence")) == ({"S": owner}, {"N": "1"}):
        marks = ("result", "last_error", "erasure_requested_at")  # our own claim set the others
    return not any(name in row for name in marks)


def _forged(row: Attributes, status: str) -> ForgedRow:
    return ForgedRow(status, {name: row[name] for name in _COMPARED if name in row})


def interpret_create(job: JobRow, row: Attributes | None) -> CreateResult | None:
    """The result of a create from the row. Returns None if there is no row."""
    if row is None:
        return None
    stored = parse_row(row)
    if isinstance(stored, ForgedRow):
        return stored
    # Equal with its owner token, so it is ours: the first response was lost.
    return Created(job) if stored == job else AlreadyExists(stored)


def _interpret_claim(claim: Claim, row: Attributes | None) -> ClaimResult | None:
    if row is None:
        return None
    stored = parse_row(row, owner=claim.owner)
    if isinstance(stored, ForgedRow):
        return stored
    # Our own token: the claim was written, and its response lost. A row keeps the token of its last
    # owner, so it is ours only while it has not moved on: our lease may have expired since.
    is_ours = stored.owner == claim.owner and stored.allows(Event.RELEASE)
    return Claimed(stored) if is_ours else ClaimFailed(stored)


def _interpret_swap(
    stored: Attributes | None, *, before: JobRow, after: JobRow
) -> SwapResult | None:
    row = _parse_or_none(stored)
    if row is None:
        return VersionConflict(None)
    if is_our_write(row, before=before, write=after):
        return Swapped(after)
    expected = (before.status, before.owner, before.version)
    return None if (row.status, row.owner, row.version) == expected else VersionConflict(row)


def _only_throttled(reasons: Sequence[Mapping[str, Any]]) -> bool:
    codes = {str(reason.get("Code", "None")) for reason in reasons} - {"None"}
    return bool(codes) and all(map(is_throttled, codes))


def _row_from_response(response: Mapping[str, Any]) -> Attributes | None:
    return response.get("Item") or None


def _parse_or_none(row: Attributes | None) -> JobRow | None:
    return None if row is None else deserialize_job(row)


def _request_token(after: JobRow) -> str:
    """The same for the same write, so that DynamoDB recognizes a retry."""
    # With key and time: not every row has an owner, and a new decision is another write.
    write = (after.job_key, after.owner, after.version, after.status, after.updated_at)
    return hashlib.sha256(repr(write).encode()).hexdigest()[:36]
