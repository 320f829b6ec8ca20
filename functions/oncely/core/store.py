"""The job store on DynamoDB. Every write is conditional."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from oncely.core.aws_errors import (
    AWS_ERRORS,
    error_code,
    is_ambiguous,
    is_condition_failure,
    is_throttled,
    translate,
)
from oncely.core.claims import Claim, evidence_of_reopening, keeps_message
from oncely.core.due import DUE_SHARDS
from oncely.core.effect_outcomes import BusinessWrite, Json, Precondition
from oncely.core.ended_jobs import erase_if_complete
from oncely.core.errors import (
    NotConfiguredError,
    OncelyError,
    UnavailableError,
    UnreadableRowError,
)
from oncely.core.job_row import ENGINE_NUMBER, OUR_MARKS, JobRow, is_our_write
from oncely.core.keys import JobKey, indexable_id
from oncely.core.lifecycle import AWAITS_MESSAGE, Event, Status
from oncely.core.row_items import (
    ATTENTION,
    DUE,
    Attributes,
    attention_partition,
    deserialize_job,
    due_partition,
    is_omitted,
    serialize,
    serialize_field,
    serialize_job,
)
from oncely.core.schedule import latest_run_at

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

JobResult: TypeAlias = Mapping[str, Json]


@dataclass(frozen=True)
class _WithJob:
    job: JobRow


@dataclass(frozen=True)
class _WithRow:
    row: JobRow


class Claimed(_WithJob):
    """A successful claim: this worker is the owner."""


class ClaimFailed(_WithRow):
    """A claim that lost to another row, which the same call returned."""


@dataclass(frozen=True)
class PrerequisiteNotMet:
    """A claim whose prerequisite job has not failed."""

    other: JobRow | None


class Swapped(_WithJob):
    """A row that was written."""


@dataclass(frozen=True)
class VersionConflict:
    """A row that changed since it was read."""

    row: JobRow | None  # None if the row was removed


@dataclass(frozen=True)
class BusinessWriteConflict:
    """A business row that failed its precondition. Nothing was written, not even the job row."""

    reason: str
    is_permanent: bool = False  # no table can hold the values, whatever its rows say


class Created(_WithJob):
    """A new row."""


class AlreadyExists(_WithRow):
    """A row that existed before."""


@dataclass(frozen=True)
class ForgedRow:
    """A row that none of our functions wrote. Nothing of it counts, and `create` may replace it.

    See `JobRow.is_forged`. A row that cannot be read counts the same.
    """

    status: str  # as it was inserted, or "unreadable"
    seen: Mapping[str, Any] = field(compare=False)  # what `create` compares, in the store's form


ClaimResult: TypeAlias = Claimed | ClaimFailed | PrerequisiteNotMet | ForgedRow
SwapResult: TypeAlias = Swapped | VersionConflict | BusinessWriteConflict
CreateResult: TypeAlias = Created | AlreadyExists | ForgedRow


# What building a write raises for a number of more than 38 digits, NaN, half a character, or
# nesting without end.
UNSTORABLE_VALUE_ERRORS: Final = (ArithmeticError, RecursionError, TypeError, ValueError)


@dataclass
class Expression:
    """Collects placeholders for names and values, so that reserved words do not matter."""

    values: dict[str, Any] = field(default_factory=dict)
    placeholders: dict[str, str] = field(default_factory=dict)  # by attribute
    columns: Mapping[str, str] = field(default_factory=dict)  # those with another name

    def name(self, attribute_name: str) -> str:
        column = self.columns.get(attribute_name, attribute_name)
        return self.placeholders.setdefault(column, f"#n{len(self.placeholders)}")

    def value(self, serialized_value: Mapping[str, Any]) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = dict(serialized_value)
        return placeholder

    def parameters(self) -> dict[str, Any]:
        names = {placeholder: name for name, placeholder in self.placeholders.items()}
        found: dict[str, Any] = {"ExpressionAttributeNames": names}
        return {**found, "ExpressionAttributeValues": self.values} if self.values else found


def claim_update(
    claim: Claim, *, due_shards: int = DUE_SHARDS, keeps_message: bool = False
) -> dict[str, Any]:
    """The claim as one conditional update: it counts, leases, and fills in what the row lacks.

    `keeps_message`: for a row whose fingerprint is from another message, which stays.
    """
    e = Expression()
    one = e.value({"N": "1"})
    zero = e.value({"N": "0"})
    now = e.value(serialize_field("claimed_at", claim.now))
    lease = e.value(serialize_field("lease_until", claim.lease_until))
    engine = e.value(serialize_field("min_engine", ENGINE_NUMBER))
    due = due_partition(Status.STARTED, claim.job_key, due_shards)
    sets = [
        f"{e.name('status')} = {e.value(serialize_field('status', Status.STARTED))}",
        f"{e.name('owner')} = {e.value(serialize_field('owner', claim.owner))}",
        f"{e.name('job_type')} = {e.value(serialize_field('job_type', claim.job_type))}",
        *(f"{n} = if_not_exists({n}, {zero}) + {one}" for n in map(e.name, _INCREMENTED_BY_CLAIM)),
        f"{e.name(DUE)} = {e.value(serialize(due))}",
        *(f"{e.name(name)} = {now}" for name in ("claimed_at", "updated_at")),
        *(f"{e.name(name)} = {lease}" for name in ("lease_until", "due_at")),
    ]
    if not is_omitted("min_engine", ENGINE_NUMBER):
        sets.append(f"{e.name('min_engine')} = {engine}")
    removes = ["waits_for", "since"]
    if claim.reopens is not None:
        evidence = serialize_field("evidence", evidence_of_reopening(claim.reopens, claim))
        sets += [f"{e.name('evidence')} = {e.value(evidence)}", f"{e.name('age_from')} = {now}"]
        removes.append(ATTENTION)
    first = {"created_at": now, "first_sent_at": now}
    first |= {
        name: e.value(serialize_field(name, value))
        for name in _SET_IF_ABSENT
        if (value := getattr(claim, name)) is not None
    }
    if customer_id := indexable_id(claim.customer_id):
        first["customer_id"] = e.value(serialize_field("customer_id", customer_id))
    named = ((e.name(name), value) for name, value in first.items())
    sets += [f"{n} = if_not_exists({n}, {value})" for n, value in named]
    known = f"attribute_not_exists({e.name('min_engine')}) OR {e.name('min_engine')} <= {engine}"
    conditions = [f"({known})", *_claimable_conditions(e, claim)]
    bound = [f"attribute_exists({e.name('fingerprint')})"]
    if claim.fingerprint is not None:
        bound = [f"{e.name('fingerprint')} = {first['fingerprint']}"]
    if keeps_message:
        condition = " AND ".join([*conditions, *bound])
    else:
        message = f"{e.name('message')} = {e.value(serialize_field('message', claim.message))}"
        sets.append(message)
        # The fingerprint and its message are set together. Once set, neither changes.
        same = " AND ".join([*bound, message])
        unbound = f"attribute_not_exists({e.name('fingerprint')})"
        condition = " AND ".join([*conditions, f"({unbound} OR ({same}))"])
        if claim.reopens is None:
            condition = f"attribute_not_exists({e.name('job_key')}) OR ({condition})"
    return {
        "Key": {"job_key": serialize_field("job_key", claim.job_key)},
        "UpdateExpression": f"SET {', '.join(sets)} REMOVE {', '.join(map(e.name, removes))}",
        "ConditionExpression": condition,
        **e.parameters(),
    }


def same_attributes(seen: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The condition that these attributes are as they were seen, in the SDK's own form."""
    e = Expression()
    conditions = [
        f"{e.name(name)} = {e.value(seen[name])}"
        if name in seen
        else f"attribute_not_exists({e.name(name)})"
        for name in names
    ]
    return {"ConditionExpression": " AND ".join(conditions), **e.parameters()}


def prerequisite_check(claim: Claim, prerequisite: JobKey) -> dict[str, Any]:
    """The check that the other job failed, with the resubmissions that the limit counted."""
    e = Expression()
    condition = f"{e.name('status')} = {e.value(serialize_field('status', Status.FAILED))}"
    # It is ours: see `JobRow.is_forged`.
    ours = (f"attribute_exists({e.name(name)})" for name in ("fence", *OUR_MARKS))
    condition += f" AND ({' OR '.join(ours)})"
    if seen := claim.previous_resubmissions:
        same = e.value(serialize_field("resubmissions", seen))
        condition += f" AND {e.name('resubmissions')} = {same}"
    elif seen is not None:
        condition += f" AND attribute_not_exists({e.name('resubmissions')})"
    return {
        "Key": {"job_key": serialize_field("job_key", prerequisite)},
        "ConditionExpression": condition,
        **e.parameters(),
    }


def _claimable_conditions(e: Expression, claim: Claim) -> Iterator[str]:
    run_at, now = e.name("run_at"), e.value(serialize_field("run_at", claim.now))
    latest = latest_run_at(claim.now, claim.schedule_limit)
    ignored = f"{run_at} > {e.value(serialize_field('run_at', latest))}"
    yield f"(attribute_not_exists({run_at}) OR {run_at} <= {now} OR {ignored})"
    if claim.reopens is None:
        yield f"{e.name('status')} = {e.value(serialize_field('status', Status.READY))}"
        return
    yield f"{e.name('status')} = {e.value(serialize_field('status', Status.NEEDS_REVIEW))}"
    kinds = (e.value(serialize_field("waits_for", kind)) for kind in AWAITS_MESSAGE)
    yield f"{e.name('waits_for')} IN ({', '.join(kinds)})"
    yield f"attribute_not_exists({e.name('fence')})"  # no worker has claimed it
    yield f"{e.name('version')} = {e.value(serialize_field('version', claim.reopens.version))}"


_INCREMENTED_BY_CLAIM = ("fence", "version", "attempts")
_SET_IF_ABSENT = (
    *("amount", "currency", "deployment", "fingerprint", "key_scope", "provider", "resubmissions"),
    "subject",
)


def swap_update(before: JobRow, after: JobRow, *, due_shards: int = DUE_SHARDS) -> dict[str, Any]:
    """Change what differs, if status, owner and version are still those of `before`."""
    e = Expression()
    changed = {
        name: getattr(after, name)
        for name in after.__dataclass_fields__
        if getattr(after, name) != getattr(before, name)
    }
    removes = [name for name, value in changed.items() if is_omitted(name, value)]
    sets = {name: serialize_field(name, v) for name, v in changed.items() if name not in removes}
    if "due_at" in changed:
        # A write that keeps `due_at` keeps the partition too, so the index entry does not move.
        if after.due_at is None:
            removes.append(DUE)
        else:
            sets[DUE] = serialize(due_partition(after.status, after.job_key, due_shards))
    if after.status is not before.status:
        if where := attention_partition(after.status, after.job_key):
            sets[ATTENTION] = serialize(where)
        elif attention_partition(before.status, before.job_key):
            removes.append(ATTENTION)
    expected = [
        # The row must exist: an update after its removal would create one without a status.
        f"attribute_exists({e.name('job_key')})",
        f"{e.name('status')} = {e.value(serialize_field('status', before.status))}",
        f"{e.name('version')} = {e.value(serialize_field('version', before.version))}",
        # A version alone cannot tell two writers apart; the owner token can.
        _equals(e, "owner", before.owner),
    ]
    return {
        "Key": {"job_key": serialize_field("job_key", before.job_key)},
        **_update_expression(e, sets, removes),
        "ConditionExpression": " AND ".join(expected),
        **e.parameters(),
    }


def _equals(e: Expression, name: str, value: object) -> str:
    if value is None:
        return f"attribute_not_exists({e.name(name)})"
    return f"{e.name(name)} = {e.value(serialize_field(name, value))}"


def business_update(
    write: BusinessWrite, columns: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """A business write of a contract, with the table's own names for `columns`.

    Raises one of UNSTORABLE_VALUE_ERRORS if DynamoDB has no form for one of its values.
    """
    e = Expression(columns=columns)
    expected = [
        *_existence_conditions(e, write),
        *(_precondition_expression(e, expect) for expect in write.preconditions),
    ]
    condition = {"ConditionExpression": " AND ".join(expected)} if expected else {}
    sets = {name: serialize(value) for name, value in write.set.items()}
    json.dumps(sets, ensure_ascii=False, default=str).encode()  # fails for half a character
    return {
        "Key": {columns.get(name, name): serialize(value) for name, value in write.key.items()},
        **_update_expression(e, sets, list(write.remove)),
        **condition,
        **e.parameters(),
    }


def _existence_conditions(e: Expression, write: BusinessWrite) -> list[str]:
    if write.must_be_new:
        return [f"attribute_not_exists({e.name(name)})" for name in write.key]
    return [] if write.may_create else [f"attribute_exists({e.name(name)})" for name in write.key]


def _precondition_expression(e: Expression, precondition: Precondition) -> str:
    name = e.name(precondition.name)
    ways = []
    if precondition.one_of:
        values = ", ".join(e.value(serialize(value)) for value in precondition.one_of)
        ways.append(f"{name} IN ({values})")
    if precondition.or_absent:
        ways.append(f"attribute_not_exists({name})")
    if precondition.or_at_most is not None:
        ways.append(f"{name} <= {e.value(serialize(precondition.or_at_most))}")
    return f"({' OR '.join(ways)})"


def _update_expression(
    e: Expression, sets: Mapping[str, Any], removes: list[str]
) -> dict[str, Any]:
    parts = []
    if sets:
        parts.append("SET " + ", ".join(f"{e.name(n)} = {e.value(v)}" for n, v in sets.items()))
    if removes:
        parts.append("REMOVE " + ", ".join(e.name(name) for name in removes))
    return {"UpdateExpression": " ".join(parts)}


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
