"""The simulation of the shipped services: workers, sweeps of due rows, a stream, late replays."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

from oncely.app import App
from oncely.contract import encode_message
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job, awaits_publishing
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.reconcile.find_due_work import DueWork, SweepRequest
from oncely.registry import ContractRegistry
from oncely.run.dead_letters import DeadLetterOutcome
from oncely.run.outcomes import Duplicate, Failed, Finished, InternalError, RunOutcome
from oncely.run.process_batch import Ack, Nack, Reject, action_for
from oncely.testing.base_simulation import END_FAULTS, SWEEP_TIMEOUT, BaseSimulation
from oncely.testing.in_memory_queue import QueuedMessage
from oncely.testing.invariants import violated_invariants
from oncely.testing.memory import MemoryJobStore
from oncely.testing.restored_table import RestorableTable
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import Scheduler
from oncely.testing.simulated_services import SETTINGS, SimulatedPorts, SimulationHooks
from oncely.testing.tasks import START, SimulatedProcess, Task

# The latest replay that must be deduplicated arrives this long before its row expires.
_REPLAY_MARGIN: Final = timedelta(hours=1)


class Simulation(BaseSimulation):
    """A simulation of the shipped workers, sweeps, publisher and dead letter handler."""

    def __init__(self, scenario: Scenario, schedule: Scheduler) -> None:
        super().__init__(scenario, schedule)
        self.store = MemoryJobStore(self.rows)
        for job in scenario.jobs:
            self.store.create(job)
        self.stream: list[JobKey] = []
        self.sweeps = [START + after for after in scenario.sweeps_at]
        self.first_outcomes: dict[JobKey, Finished | Failed | Duplicate] = {}
        self.statuses_before_replay: dict[JobKey, Status] = {}  # of ended jobs
        hooks = SimulationHooks(
            on_write=self._on_write, on_send=self.send, on_reject=self._on_reject
        )
        self.table = RestorableTable(scenario, schedule, self.store)
        self.ports = SimulatedPorts(
            self.interceptor, self.store, self.intercepted_providers, hooks, guard=self.table.guard
        )
        self.app = App(SETTINGS, ContractRegistry(scenario.contracts), self.ports)

    def job(self, key: JobKey) -> Job | None:
        """Return the row of a job. Returns None if there is none."""
        return self.store.jobs.get(key)

    def tasks(self) -> list[Task]:
        """Return the next delivery, publication and sweep."""
        tasks = super().tasks()
        if self.stream:
            tasks.append(Task("publish", self.schedule.now, self._publish))
        free = self.ports.sweep_leases.free_at()
        due = [max(job.due_at, free) for job in self.store.jobs.values() if job.due_at is not None]
        if due or self.sweeps:
            at = max(min([*due, *self.sweeps]), self.schedule.now)
            if (open_at := self.table.sweeps_from(at)) is not None:
                tasks.append(Task("sweep", open_at, self._sweep))
        return [*tasks, *self.table.tasks(lambda kind, run: self.new_process(kind, run, None))]

    def shared_state(self) -> object:
        """Return the rows, the alerts, the events, the first outcomes and the leases."""
        ports = self.ports
        alerted, published = ports.notifier.alerted, ports.event_bus.published
        return (self.store.jobs, alerted, published, self.first_outcomes, ports.sweep_leases.held)

    def full_state(self) -> object:
        """Add the stream, the sweeps and the table."""
        return (super().full_state(), self.stream, self.sweeps, self.table.state())

    def violations(self) -> list[str]:
        """Return the violated invariants, with those of the scenario."""
        return violated_invariants(self)

    def final_statuses(self) -> Iterator[str]:
        """Yield the final status of each job."""
        for job in self.store.jobs.values():
            yield f"{job.job_type} {job.status}"

    def describe(self) -> Iterator[str]:
        """Describe each job with its evidence."""
        for job in self.store.jobs.values():
            yield f"\n{job.job_key} is {job.status}, attempts {job.attempts}"
            for entry in job.evidence:
                at = (entry.at - START).total_seconds()
                yield f"  {at:>9.0f} s  {entry.actor}: {entry.event}, {entry.reason}"

    def expire(self) -> None:
        """Advance to just before the rows expire, so that they still deduplicate the replay."""
        self.statuses_before_replay = {
            key: job.status for key, job in self.store.jobs.items() if job.ended
        }
        expiries = [job.expires_at for job in self.store.jobs.values() if job.expires_at]
        if expiries:
            self.schedule.advance_to(min(expiries) - _REPLAY_MARGIN)
            self.schedule.log("the rows are about to expire; the message is replayed")

    def _on_write(self, key: JobKey) -> None:
        self.table.on_write(key)
        job = self.store.jobs.get(key)
        if job is None:
            return
        if awaits_publishing(job) and key not in self.stream:
            self.stream.append(key)
        if job.expires_at is not None and not job.ended:
            self.problems.append(f"{key} is {job.status} and may expire")
        elif job.expires_at is not None and (missing := self._unsent_follow_up(job)):
            self.problems.append(f"{key} may expire, and {missing} was not sent")

    def _unsent_follow_up(self, job: Job) -> str | None:
        contract = self.app.registry.contract(job.job_type)(self.ports)
        if (
            contract.publishes_events
            and (job.job_key, job.status) not in self.ports.event_bus.published
        ):
            return "its event"
        unsent = [
            one
            for one in contract.follow_ups(job)
            if encode_message(one.to_dict()) not in self.bodies
        ]
        return f"its follow-up {unsent[0].job}" if unsent else None

    def _on_reject(self, body: str, reason: str) -> None:
        # After an edit of the business rows, a conflicting message is rejected on purpose.
        if not self.edited:
            self.problems.append(f"a message was rejected: {reason} ({body})")

    def process(self, message: QueuedMessage, deadline: datetime) -> None:
        """Run a worker, and ack, nack or reject its message."""
        app = self.app
        try:
            outcome: RunOutcome = app.job_runner.run(message.body, deadline=deadline)
        except UnavailableError as error:
            outcome = InternalError(error)
        except Exception as error:  # noqa: BLE001  # any other error is a bug
            self.problems.append(f"a worker raised {type(error).__name__}: {error}")
            outcome = InternalError(error)
        self.schedule.log("  outcome:", outcome)
        action = action_for(outcome, near_receive_limit=message.near_receive_limit)
        self.schedule.intercept("end", END_FAULTS)
        self._check_repeated_outcome(outcome)
        match action:
            case Nack(visible_at=at):
                message.visible_at = max(at or self.schedule.now, self.schedule.now)
            case Reject(reason=reason):
                self._on_reject(message.body, reason)
                self.queue.remove(message)
            case Ack():
                self.queue.remove(message)
            case _:
                pass  # its visibility timeout expires

    def _check_repeated_outcome(self, outcome: RunOutcome) -> None:
        if isinstance(outcome, Finished | Failed | Duplicate):
            self.interceptor.mutations += 1
            first = self.first_outcomes.setdefault(outcome.job_key, outcome)
            if first.result != outcome.result:
                self.problems.append(
                    f"a duplicate returned {dict(outcome.result)}, "
                    f"the first run returned {dict(first.result)}"
                )

    def dead_letter(self, message: QueuedMessage) -> None:
        """Run the dead letter handler."""
        (handled,) = self.app.dead_letter_handler.handle_batch({message.body: message.body})
        self.schedule.intercept("end", END_FAULTS)
        if handled.outcome is not DeadLetterOutcome.LEFT_IN_QUEUE:
            self.queue.remove(message)

    def _publish(self) -> SimulatedProcess:
        key = self.stream.pop(0)
        return self.new_process("p", lambda: self._publish_one(key), key)

    def _publish_one(self, key: JobKey) -> None:
        # A stream retries for a while; the worst case is no retry at all.
        with self._tolerate_unavailable():
            self.app.publisher.publish(key)

    def _sweep(self) -> SimulatedProcess:
        self.sweeps = [at for at in self.sweeps if at > self.schedule.now]
        return self.new_process("r", self._sweep_all, None)

    def _sweep_all(self) -> None:
        app, ports, due_work = self.app, self.ports, DueWork()
        with self._tolerate_unavailable():
            due_work = app.due_work_finder.find(SweepRequest(), holder=self._holder())
        deadline = self.schedule.now + SWEEP_TIMEOUT
        for handled in app.group_resolver.resolve(due_work.items, deadline=deadline):
            self.schedule.log(" ", handled.resolution)
            with self._tolerate_unavailable():
                if handled.error is not None:
                    raise handled.error
        with self._tolerate_unavailable():
            for shard in due_work.shards:
                ports.sweep_leases.release(shard, holder=str(self._holder()))
        self.schedule.intercept("end", END_FAULTS)

    def _holder(self) -> str | None:
        # Without leases, sweeps overlap wherever they can.
        process = self.schedule.current
        return process.name if process and self.scenario.sweep_leases else None

    @contextmanager
    def _tolerate_unavailable(self) -> Iterator[None]:
        # AWS may be unavailable; a later run continues. Any other error is a bug.
        try:
            yield
        except UnavailableError as error:
            self.schedule.log("  gives up:", error)
        except Exception as error:  # noqa: BLE001  # any other error is a bug
            self.problems.append(f"a service raised {type(error).__name__}: {error}")
