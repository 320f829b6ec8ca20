"""The gates in memory. The conformance suite compares them with DynamoDB."""

import threading
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from oncely.domain.gate import GateSnapshot, GateState, Pause, Slots, lease_slots


@dataclass
class MemoryGateTable:
    """Gates and pauses by their names."""

    gates: dict[str, GateState] = field(default_factory=dict)
    pauses: dict[str, Pause] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> GateSnapshot:
        with self.lock:
            return GateSnapshot(gates=dict(self.gates), pauses=dict(self.pauses))

    def lease(
        self, gate: str, *, count: int, interval: timedelta, now: datetime, latest: datetime
    ) -> tuple[GateState, Slots | None]:
        with self.lock:
            state, slots = lease_slots(
                self.gates.get(gate, GateState()),
                count=count,
                interval=interval,
                now=now,
                latest=latest,
            )
            self.gates[gate] = state
            return state, slots

    def change_circuit(self, gate: str, before: GateState, after: GateState) -> bool:
        with self.lock:
            known = self.gates.get(gate, GateState())
            if (known.opened_at, known.probe_at) != (before.opened_at, before.probe_at):
                return False
            self.gates[gate] = replace(after, next_slot=known.next_slot)
            return True

    def write_pause(self, before: Pause | None, after: Pause) -> bool:
        with self.lock:
            if self.pauses.get(after.target) != before:
                return False
            self.pauses[after.target] = after
            return True
