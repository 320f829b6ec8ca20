"""The gate in a simulation: an operator pauses a job type, or the circuit of a provider opens."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event
from oncely.core.profiles import EndpointGroup
from oncely.gates.gate import (
    GateSnapshot,
    Pause,
    PauseAction,
    PauseEntry,
    gate_name,
    open_circuit,
)
from oncely.operate.own_tables import GATES
from oncely.testing.scenario import GateClosing
from oncely.testing.tasks import SimulatedProcess, Task

if TYPE_CHECKING:
    from oncely.testing.world import Simulation  # which imports this module

# Longer than a job may age.
PAUSE_TIME: Final = timedelta(days=3)


class SimulatedHold:
    """The hold of a scenario. It begins at any time, or never."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._begun = False
        self._resume_at: datetime | None = None

    def tasks(self) -> list[Task]:
        """Return the task that holds jobs, or the one that resumes them."""
        now = self._simulation.schedule.now
        if self._simulation.scenario.closes_gate is not None and not self._begun:
            return [Task("hold", now, self._begin, optional=True)]
        if self._resume_at is not None:
            return [Task("resume", max(self._resume_at, now), self._resume)]
        return []

    def due_at(self, job: JobRow) -> datetime | None:
        """Return when a sweep can do something about a row. Held rows stay due."""
        if self._resume_at is not None and job.allows(Event.PARK):
            return None
        times = [at for at in (job.due_at, *self._probe_times()) if at is not None]
        return max(times) if job.due_at is not None and job.unresolved else job.due_at

    def state(self) -> object:
        """Return the state, for a digest."""
        return (self._begun, self._resume_at)

    def _probe_times(self) -> list[datetime | None]:
        if not self._simulation.aws.dynamodb.tables[GATES]:
            return []
        return [one.probe_at for one in self._read().gates.values()]

    def _read(self) -> GateSnapshot:
        with self._simulation.interceptor.silence():
            return self._simulation.ports.gate_table.read()

    def _begin(self) -> SimulatedProcess:
        self._begun = True
        is_pause = self._simulation.scenario.closes_gate is GateClosing.PAUSE
        return self._simulation.new_process("g", self._pause if is_pause else self._open_circuits)

    def _resume(self) -> SimulatedProcess:
        self._resume_at = None
        return self._simulation.new_process("g", lambda: self._change(PauseAction.RESUME))

    def _pause(self) -> None:
        self._resume_at = self._simulation.schedule.now + PAUSE_TIME
        self._change(PauseAction.PAUSE)

    def _change(self, action: PauseAction) -> None:
        job_type, now = self._simulation.scenario.contract.job_type, self._simulation.schedule.now
        entry = PauseEntry(at=now, action=action, actor="ada", reason="wrong prices")
        after = self._read().pauses.get(job_type, Pause(target=job_type)).with_entry(entry)
        with self._simulation.interceptor.silence():
            self._simulation.ports.gate_table.write_pause(after)
        self._simulation.interceptor.mutations += 1

    def _open_circuits(self) -> None:
        known, now = self._read(), self._simulation.schedule.now
        for provider in self._simulation.providers:
            for group in EndpointGroup:
                name = gate_name(provider, group)
                if (opened := open_circuit(known.state(name), now)) is not None:
                    with self._simulation.interceptor.silence():
                        self._simulation.ports.gate_table.change_circuit(name, opened)
        self._simulation.interceptor.mutations += 1
