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
from oncely.gates.gate import (
    SLOT_LEAD,
    GateSnapshot,
    GateState,
    Pause,
    PauseAction,
    PauseEntry,
    Period,
    Slot,
    farthest_slot,
    slots_from,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PAUSE_KEY_PREFIX: Final = "pause:"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# Each retry lost a race with another process that leased slots of an idle gate.
_MAX_RETRIES: Final = 4
_CIRCUIT_TIMES: Final = ("opened_at", "probe_at")


@dataclass(frozen=True)
class GateTable:
    """The gates. A lease adds to a number, so processes do not wait for each other."""

    client: "DynamoDBClient"
    table: str
    # Gates whose last lease found no process ahead. It only decides which write comes first.
    _idle: set[str] = field(default_factory=set)

    def read(self) -> GateSnapshot:
        with translated("the gate table", name=self.table, check="GATES_TABLE"):
            pages = self.client.get_paginator("scan").paginate(
                TableName=self.table, ConsistentRead=True
            )
            rows = [deserialize_row(item) for page in pages for item in page["Items"]]
        items = {str(row["gate"]): row for row in rows}
        pauses = [_to_pause(row) for name, row in items.items() if _is_pause(name)]
        return GateSnapshot(
            gates={name: _to_state(row) for name, row in items.items() if not _is_pause(name)},
            pauses={one.target: one for one in pauses},
        )

    def lease(
        self, gate: str, *, count: int, interval: timedelta, now: datetime, latest: datetime
    ) -> tuple[Slot, ...]:
        """Lease the next slots. Returns none if those before `latest` are all taken."""
        taken, farthest = interval * count, farthest_slot(interval, now)
        for _ in range(_MAX_RETRIES):
            if gate in self._idle:
                leased, row = self._update(
                    gate,
                    "SET #next_slot = :next",
                    "attribute_not_exists(#next_slot) OR NOT #next_slot BETWEEN :now AND :farthest",
                    next=_to_number(now + SLOT_LEAD + taken),
                    now=_to_number(now),
                    farthest=_to_number(farthest),
                )
            else:
                leased, row = self._update(
                    gate,
                    "SET #next_slot = #next_slot + :taken",
                    "#next_slot BETWEEN :now AND :latest",
                    taken=taken // _MICROSECOND,
                    now=_to_number(now),
                    latest=_to_number(latest),
                )
            if isinstance(next_slot := row.get("next_slot"), int):
                if leased:
                    return slots_from(_EPOCH + next_slot * _MICROSECOND - taken, interval, count)
                if _to_number(latest) < next_slot <= _to_number(farthest):
                    return ()
            # The next slot is on the other side of now, or out of reach: try the other write.
            self._idle.symmetric_difference_update({gate})
        raise UnavailableError(f"the slots of {gate} kept changing")

    def change_circuit(self, gate: str, after: GateState) -> bool:
        """Write a circuit, unless it changed since it was read."""
        times = {name: at for name in _CIRCUIT_TIMES if (at := getattr(after, name)) is not None}
        outages = [[format_time(one.start), format_time(one.end)] for one in after.outages]
        circuit = {name: format_time(at) for name, at in times.items()} | {"outages": outages}
        return self._swap(gate, "circuit", after.revision, circuit)

    def write_pause(self, after: Pause) -> bool:
        """Write a pause, unless it changed since it was read."""
        entries = [_entry_values(entry) for entry in after.entries]
        return self._swap(f"{PAUSE_KEY_PREFIX}{after.target}", "entries", after.revision, entries)

    def _swap(self, key: str, name: str, before: object, after: object) -> bool:
        """Replace an attribute. Returns False if it is not what it was."""
        known = {} if before is None else {"before": before}
        condition = f"#{name} = :before" if known else f"attribute_not_exists(#{name})"
        return self._update(key, f"SET #{name} = :after", condition, after=after, **known)[0]

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


def _is_pause(name: str) -> bool:
    return name.startswith(PAUSE_KEY_PREFIX)


def _to_number(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def _to_state(row: Mapping[str, Any]) -> GateState:
    """Parse a circuit. An unreadable one counts as closed, and the next outage replaces it."""
    revision = row.get("circuit")
    try:
        circuit = revision or {}
        outages = [Period(*map(parse_time, one)) for one in circuit.get("outages", ())]
        times = {name: parse_time(circuit[name]) for name in _CIRCUIT_TIMES if name in circuit}
        return GateState(**times, outages=tuple(outages), revision=revision)
    except MALFORMED_ROW_ERRORS:
        return GateState(revision=revision)


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
    return Pause(target=target, entries=entries, revision=row.get("entries"))
