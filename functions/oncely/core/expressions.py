"""Builds DynamoDB's update and condition expressions. Every name is a placeholder."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from oncely.core.claims import Claim, evidence_of_reopening
from oncely.core.due import DUE_SHARDS
from oncely.core.effect_outcomes import BusinessWrite, Precondition
from oncely.core.job_row import ENGINE_NUMBER, OUR_MARKS, JobRow
from oncely.core.keys import JobKey, indexable_id
from oncely.core.lifecycle import AWAITS_MESSAGE, Status
from oncely.core.row_items import (
    ATTENTION,
    DUE,
    attention_partition,
    due_partition,
    is_omitted,
    serialize,
    serialize_field,
)
from oncely.core.schedule import latest_run_at

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
    if claim.reopens is None:
        yield f"{e.name('status')} = {e.value(serialize_field('status', Status.READY))}"
        run_at, now = e.name("run_at"), e.value(serialize_field("run_at", claim.now))
        latest = latest_run_at(claim.now, claim.schedule_limit)
        ignored = f"{run_at} > {e.value(serialize_field('run_at', latest))}"
        yield f"(attribute_not_exists({run_at}) OR {run_at} <= {now} OR {ignored})"
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
