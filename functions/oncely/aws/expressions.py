"""Builds DynamoDB's update and condition expressions. Every name is a placeholder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oncely.aws.job_rows import (
    ATTENTION,
    DUE,
    attention_partition,
    due_partition,
    is_omitted,
    serialize,
    serialize_field,
)
from oncely.domain.claims import Claim
from oncely.domain.due import DUE_SHARDS
from oncely.domain.effect_outcomes import BusinessWrite, Precondition
from oncely.domain.jobs import Job
from oncely.domain.keys import indexable_id
from oncely.domain.lifecycle import Status


@dataclass
class Expression:
    """Collects placeholders for names and values, so that reserved words do not matter."""

    values: dict[str, Any] = field(default_factory=dict)
    placeholders: dict[str, str] = field(default_factory=dict)  # by attribute

    def name(self, attribute_name: str) -> str:
        return self.placeholders.setdefault(attribute_name, f"#n{len(self.placeholders)}")

    def value(self, serialized_value: Mapping[str, Any]) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = dict(serialized_value)
        return placeholder

    def parameters(self) -> dict[str, Any]:
        names = {placeholder: name for name, placeholder in self.placeholders.items()}
        found: dict[str, Any] = {"ExpressionAttributeNames": names}
        return {**found, "ExpressionAttributeValues": self.values} if self.values else found


def claim_update(claim: Claim, *, due_shards: int = DUE_SHARDS) -> dict[str, Any]:
    """`apply_claim` of domain/claims.py as one conditional update."""
    e = Expression()
    one = e.value({"N": "1"})
    zero = e.value({"N": "0"})
    now = e.value(serialize_field("claimed_at", claim.now))
    lease = e.value(serialize_field("lease_until", claim.lease_until))
    status, key = e.name("status"), e.name("job_key")
    due = due_partition(Status.STARTED, claim.job_key, due_shards)
    free = f"({status} = {e.value(serialize_field('status', Status.READY))})"
    if claim.fingerprint is not None:
        mark = e.name("fingerprint")
        same = e.value(serialize_field("fingerprint", claim.fingerprint))
        free = f"({free} AND (attribute_not_exists({mark}) OR {mark} = {same}))"
    sets = [
        f"{status} = {e.value(serialize_field('status', Status.STARTED))}",
        f"{e.name('owner')} = {e.value(serialize_field('owner', claim.owner))}",
        *(f"{n} = if_not_exists({n}, {zero}) + {one}" for n in map(e.name, _INCREMENTED_BY_CLAIM)),
        f"{e.name(DUE)} = {e.value(serialize(due))}",
        *(f"{e.name(name)} = {now}" for name in ("claimed_at", "updated_at")),
        *(f"{e.name(name)} = {lease}" for name in ("lease_until", "due_at")),
    ]
    first = {
        "created_at": now,
        "first_sent_at": now,
        "job_type": e.value(serialize_field("job_type", claim.job_type)),
        "message": e.value(serialize_field("message", claim.message)),
    }
    first |= {
        name: e.value(serialize_field(name, value))
        for name in _SET_IF_ABSENT
        if (value := getattr(claim, name)) is not None
    }
    if customer_id := indexable_id(claim.customer_id):
        first["customer_id"] = e.value(serialize_field("customer_id", customer_id))
    named = ((e.name(name), value) for name, value in first.items())
    sets += [f"{n} = if_not_exists({n}, {value})" for n, value in named]
    return {
        "Key": {"job_key": serialize_field("job_key", claim.job_key)},
        "UpdateExpression": "SET " + ", ".join(sets),
        "ConditionExpression": f"attribute_not_exists({key}) OR {free}",
        **e.parameters(),
    }


_INCREMENTED_BY_CLAIM = ("fence", "version", "attempts")
_SET_IF_ABSENT = ("amount", "currency", "deployment", "fingerprint", "key_scope", "subject")


def compare_and_swap_update(
    before: Job, after: Job, *, due_shards: int = DUE_SHARDS
) -> dict[str, Any]:
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
        f"attribute_not_exists({e.name('owner')})"
        if before.owner is None
        else f"{e.name('owner')} = {e.value(serialize_field('owner', before.owner))}",
    ]
    return {
        "Key": {"job_key": serialize_field("job_key", before.job_key)},
        **_update_expression(e, sets, removes),
        "ConditionExpression": " AND ".join(expected),
        **e.parameters(),
    }


def business_update(write: BusinessWrite) -> dict[str, Any]:
    """A business write of a contract."""
    e = Expression()
    expected = [
        *_existence_conditions(e, write),
        *(_precondition_expression(e, expect) for expect in write.preconditions),
    ]
    condition = {"ConditionExpression": " AND ".join(expected)} if expected else {}
    sets = {name: serialize(value) for name, value in write.set.items()}
    return {
        "Key": {name: serialize(value) for name, value in write.key.items()},
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
