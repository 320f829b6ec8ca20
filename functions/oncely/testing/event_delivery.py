"""Provider events in a simulation: late, repeated, out of order, forged, or lost."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from oncely.testing.base_simulation import END_FAULTS, FUNCTION_TIMEOUT
from oncely.testing.tasks import SimulatedProcess, Task

if TYPE_CHECKING:
    from oncely.testing.world import Simulation  # which imports this module

# What a process did not handle is received again after this time.
_VISIBILITY: Final = timedelta(minutes=6)


@dataclass
class _QueuedEvent:
    """An event that a provider published. If it is lost, only a schedule delivers it."""

    body: str
    at: datetime
    lost: bool


class SimulatedEvents:
    """The events of a scenario. What stays in the queue may be received again."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._waiting = dict(enumerate(simulation.scenario.events))
        self._queue: list[_QueuedEvent] = []
        self._published = 0

    def tasks(self) -> list[Task]:
        """Return a task for each event that has not been handled, until the rows nearly expire."""
        if self._simulation.statuses_before_replay:
            return []
        self._publish()
        now = self._simulation.schedule.now
        tasks = [
            Task(f"event{number}", now, partial(self._begin, number), optional=True)
            for number in self._waiting
        ]
        if self._queue:
            event = min(self._queue, key=lambda one: one.at)
            deliver = partial(self._deliver, event)
            tasks.append(Task("event", max(event.at, now), deliver, optional=event.lost))
        return tasks

    def state(self) -> object:
        """Return the state, for a digest."""
        queued = [(one.body, one.at) for one in self._queue]
        return (sorted(self._waiting), queued, self._published)

    def _publish(self) -> None:
        """Queue what the providers have published since."""
        source = self._simulation.scenario.published_events
        if source is None:
            return
        at = self._simulation.schedule.now + source.delay
        bodies = source.bodies(self._simulation.providers)
        for body in bodies[self._published :]:
            copies = (_QueuedEvent(body, at, source.lost) for _ in range(source.deliveries))
            self._queue.extend(copies)
        self._published = len(bodies)

    def _begin(self, number: int) -> SimulatedProcess:
        body = self._waiting.pop(number)

        def receive() -> None:
            if not self._receive(body):
                self._waiting[number] = body

        return self._simulation.new_process("e", receive, number)

    def _deliver(self, event: _QueuedEvent) -> SimulatedProcess:
        event.at = self._simulation.schedule.now + _VISIBILITY

        def receive() -> None:
            if self._receive(event.body) and event in self._queue:
                self._queue.remove(event)

        return self._simulation.new_process("e", receive, event.body)

    def _receive(self, body: str) -> bool:
        """Handle one event. Returns False if it stays in the queue."""
        simulation = self._simulation
        deadline = simulation.schedule.now + FUNCTION_TIMEOUT
        received = simulation.app.event_intake.receive(body, deadline=deadline)
        simulation.schedule.log("  event:", received.outcome or received.error)
        with simulation.tolerate_unavailable():
            if received.error is not None:
                raise received.error
        simulation.schedule.intercept("end", END_FAULTS)
        return not received.stays_in_queue
