"""The gates in their own table: one item for each provider and endpoint group, or pause."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from oncely.aws.item_update import update_item
from oncely.core.aws_errors import translated
from oncely.core.errors import UnavailableError
from oncely.core.row_items import MALFORMED_ROW_ERRORS, deserialize_row
from oncely.core.text import format_time, parse_time
from oncely.gates.rules import (
    SLOT_LEAD,
    GateSnapshot,
    GateState,
    Pause,
    PauseAction,
    PauseEntry,
    Period,
    Slots,
    farthest_slot,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PAUSE_KEY_PREFIX: Final = "pause:"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# Each retry lost a race with another process that leased slots of an idle gate.
_MAX_RETRIES: Final = 4
_CIRCUIT_TIMES: Final = ("opened_at", "probe_at", "closed_at")
_CIRCUIT_FIELDS: Final = (*_CIRCUIT_TIMES, "outages")
# In the year 9999, the last that a time can have.
_MAX_SLOT: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


@dataclass(frozen=True)
class GateTable:
    """The gates. A lease adds to a number, so processes do not wait for each other."""

    client: "DynamoDBClient"
    table: str
    # Gates whose last lease found no process ahead. It only decides which write comes first.
    _idle: set[str] = field(default_factory=set)

    def read(self) -> GateSnapshot:
        gates: dict[str, GateState] = {}
        pauses: dict[str, Pause] = {}
        unreadable = []
        with translated("the gate table", name=self.table, check="GATES_TABLE"):
            pages = self.client.get_paginator("scan").paginate(
                TableName=self.table, ConsistentRead=True
            )
            rows = [deserialize_row(item) for page in pages for item in page["Items"]]
        for row in rows:
            name = str(row["gate"])
            if name.startswith(PAUSE_KEY_PREFIX):
                pause = _to_pause(row)
                pauses[pause.target] = pause
                continue
            try:
                gates[name] = _to_state(row)
            except UnavailableError:
                unreadable.append(name)
        return GateSnapshot(gates=gates, pauses=pauses, unreadable=tuple(unreadable))

    def lease(
        self, gate: str, *, count: int, interval: timedelta, now: datetime, latest: datetime
    ) -> tuple[GateState, Slots | None]:
        taken, farthest = interval * count, farthest_slot(interval, now)
        for _ in range(_MAX_RETRIES):
            if gate in self._idle:
                begun, row = self._update(
                    gate,
                    "SET #next_slot = :next",
                    "attribute_not_exists(#next_slot) OR NOT #next_slot BETWEEN :now AND :farthest",
                    next=_to_number(now + SLOT_LEAD + taken),
                    now=_to_number(now),
                    farthest=_to_number(farthest),
                )
            else:
                begun, row = self._update(
                    gate,
                    "SET #next_slot = #next_slot + :taken",
                    "#next_slot BETWEEN :now AND :latest",
                    taken=taken // _MICROSECOND,
                    now=_to_number(now),
                    latest=_to_number(latest),
                )
            state = _to_state(row)
            if begun and state.next_slot is not None:
                return state, Slots(state.next_slot - taken, interval, count)
            if state.next_slot is not None and latest < state.next_slot <= farthest:
                return state, None
            # The next slot is on the other side of now, or out of reach: try the other write.
            self._idle.symmetric_difference_update({gate})
        raise UnavailableError(f"the slots of {gate} kept changing")

    def change_circuit(self, gate: str, before: GateState, after: GateState) -> bool:
        values = _circuit_values(after)
        sets = ", ".join(f"#{name} = :{name}" for name in values)
        removed = ", ".join(f"#{name}" for name in _CIRCUIT_FIELDS if name not in values)
        expected = {
            f"{name}_before": format_time(at)
            for name in ("opened_at", "probe_at")
            if (at := getattr(before, name)) is not None
        }
        conditions = [
            f"#{name} = :{name}_before"
            if f"{name}_before" in expected
            else f"attribute_not_exists(#{name})"
            for name in ("opened_at", "probe_at")
        ]
        changed, _ = self._update(
            gate,
            " ".join(filter(None, (sets and f"SET {sets}", removed and f"REMOVE {removed}"))),
            " AND ".join(conditions),
            **values,
            **expected,
        )
        return changed

    def write_pause(self, before: Pause | None, after: Pause) -> bool:
        known: dict[str, Any] = {}
        condition = "attribute_not_exists(#gate)"
        if before is not None:
            known, condition = {"known": before.revision}, "#changed_at = :known"
            if before.revision is None:
                known, condition = {}, "attribute_not_exists(#changed_at)"
        written, _ = self._update(
            f"{PAUSE_KEY_PREFIX}{after.target}",
            "SET #entries = :entries, #changed_at = :changed_at",
            condition,
            entries=[_entry_values(entry) for entry in after.entries],
            changed_at=_last_change(after),
            **known,
        )
        return written

    def _update(
        self,
        gate: str,
        update: str,
        condition: str,
        **values: Any,  # noqa: ANN401  # of a field
    ) -> tuple[bool, Mapping[str, object]]:
        """Update an item. Returns whether the condition held, and the item."""
        with translated(f"the gate {gate}", name=self.table, check="GATES_TABLE"):
            return update_item(
                self.client,
                self.table,
                {"gate": gate},
                update=update,
                condition=condition,
                values=values,
            )


def _to_number(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def _circuit_values(state: GateState) -> dict[str, object]:
    times = {name: getattr(state, name) for name in _CIRCUIT_TIMES}
    values: dict[str, object] = {
        name: format_time(at) for name, at in times.items() if at is not None
    }
    if state.outages:
        values["outages"] = [
            [format_time(one.start), format_time(one.end)] for one in state.outages
        ]
    return values


def _to_state(row: Mapping[str, Any]) -> GateState:
    try:
        slot = row.get("next_slot")
        return GateState(
            # A value that is not a number is overwritten by the next lease.
            next_slot=_EPOCH + min(slot, _MAX_SLOT) * _MICROSECOND if type(slot) is int else None,
            outages=tuple(
                Period(parse_time(start), parse_time(end)) for start, end in row.get("outages", ())
            ),
            **{name: _parse_own_time(row[name]) for name in _CIRCUIT_TIMES if name in row},
        )
    except MALFORMED_ROW_ERRORS as error:
        raise UnavailableError(f"the item of the gate {row.get('gate')} is malformed") from error


def _parse_own_time(text: object) -> datetime:
    """Parse a time. In any other format it would never equal what a change expects."""
    at = parse_time(text)
    if format_time(at) != text:
        raise ValueError("it was not written by a gate")
    return at


def _last_change(pause: Pause) -> str:
    # Two changes may come in one millisecond, and an erasure removes reasons of earlier ones.
    last, erased = pause.entries[-1], sum(not one.reason for one in pause.entries)
    return f"{format_time(last.at)} {last.action} {len(pause.entries)} {erased}"


def _entry_values(entry: PauseEntry) -> dict[str, object]:
    return {
        "at": format_time(entry.at),
        "action": str(entry.action),
        "actor": entry.actor,
        "reason": entry.reason,
    }


def _to_pause(row: Mapping[str, Any]) -> Pause:
    """Parse a pause. An unreadable one still holds its jobs: an operator wanted to stop them."""
    try:
        entries = tuple(
            PauseEntry(
                at=parse_time(one["at"]),
                action=PauseAction(one["action"]),
                actor=str(one["actor"]),
                reason=str(one["reason"]),
            )
            for one in row["entries"]
        )
    except MALFORMED_ROW_ERRORS:
        reason = "its item in the gate table cannot be read; resuming writes a new one"
        entries = (PauseEntry(at=_EPOCH, action=PauseAction.PAUSE, actor="unknown", reason=reason),)
    target = str(row["gate"]).removeprefix(PAUSE_KEY_PREFIX)
    return Pause(target=target, entries=entries, revision=row.get("changed_at"))
