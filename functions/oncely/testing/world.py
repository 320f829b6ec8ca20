"""The shipped services in a world of faults: sweeps when rows fall due, a stream, late replays."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

from oncely.contract import body_of
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.proof import owes_something
from oncely.services.dead_letters import Fate
from oncely.services.deadline import Deadline
from oncely.services.find_due import Found, Sweep
from oncely.services.outcomes import Broken, Duplicate, Failed, Finished, Outcome
from oncely.services.replies import Ack, HandBack, Reject, reply_to
from oncely.testing.actors import START, Actor, Task
from oncely.testing.deployment import Deployment, Hooks
from oncely.testing.ground import END, SWEEP_TIMEOUT, Ground
from oncely.testing.letters import Letter
from oncely.testing.memory import MemoryJobStore
from oncely.testing.promise import what_is_broken
from oncely.testing.restored_table import RestorableTable
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import Schedule

# A replay that comes this long before its row expires is the latest that must be answered.
_LAST_MOMENT: Final = timedelta(hours=1)


class World(Ground):
    """The shipped services at work: workers, sweeps, the stream's publisher, dead letters."""

    def __init__(self, scenario: Scenario, schedule: Schedule) -> None:
        super().__init__(scenario, schedule)
        self.store = MemoryJobStore(self.rows)
        for job in scenario.jobs:
            self.store.create(job)
        self.stream: list[JobKey] = []
        self.sweeps = [START + after for after in scenario.sweeps_at]
        self.answers: dict[JobKey, Finished | Failed | Duplicate] = {}  # the first of each job
        self.ended: dict[JobKey, Status] = {}  # how each had ended before the late replay
        hooks = Hooks(wrote=self._wrote, sent=self.send, rejected=self._rejected)
        self.table = RestorableTable(scenario, schedule, self.store)
        self.services = Deployment(
            scenario, self.points, self.store, self.pointed, hooks, guard=self.table.guard
        )

    def job(self, key: JobKey) -> Job | None:
        """The row."""
        return self.store.jobs.get(key)

    def tasks(self) -> list[Task]:
        """The next delivery, publication and sweep."""
        found = super().tasks()
        if self.stream:
            found.append(Task("publish", self.schedule.now, self._publish))
        free = self.services.leases.free_at()
        due = [max(job.due_at, free) for job in self.store.jobs.values() if job.due_at is not None]
        if due or self.sweeps:
            at = max(min([*due, *self.sweeps]), self.schedule.now)
            if (open_at := self.table.sweeps_from(at)) is not None:
                found.append(Task("sweep", open_at, self._sweep))
        return [*found, *self.table.tasks(lambda kind, run: self.actor(kind, run, None))]

    def outside(self) -> object:
        """The rows, who was told of a review or an end, and what was answered."""
        services = self.services
        told, heard = services.alerts.told, services.bus.heard
        return (self.store.jobs, told, heard, self.answers, services.leases.held)

    def state(self) -> object:
        """That, and what the stream and the timer bring."""
        return (super().state(), self.stream, self.sweeps, self.table.state())

    def broken(self) -> list[str]:
        """The promise, and what the scenario adds to it."""
        return what_is_broken(self)

    def ends(self) -> Iterator[str]:
        """How each job ended."""
        for job in self.store.jobs.values():
            yield f"{job.job_type} {job.status}"

    def story(self) -> Iterator[str]:
        """Each job with its evidence."""
        for job in self.store.jobs.values():
            yield f"\n{job.job_key} is {job.status}, attempts {job.attempts}"
            for entry in job.evidence:
                at = (entry.at - START).total_seconds()
                yield f"  {at:>9.0f} s  {entry.actor}: {entry.event}, {entry.reason}"

    def expire(self) -> None:
        """Let nearly all of the retention pass: the rows are still there, and answer the replay."""
        self.ended = {key: job.status for key, job in self.store.jobs.items() if job.ended}
        expiries = [job.expires_at for job in self.store.jobs.values() if job.expires_at]
        if expiries:
            self.schedule.move_to(min(expiries) - _LAST_MOMENT)
            self.schedule.log("the rows are about to expire; the message is replayed")

    def _wrote(self, key: JobKey) -> None:
        """The stream shows each write."""
        self.table.wrote(key)
        job = self.store.jobs.get(key)
        if job is None:
            return
        if owes_something(job) and key not in self.stream:
            self.stream.append(key)
        if job.expires_at is not None and not job.ended:
            self.problems.append(f"{key} is {job.status} and may expire")
        elif job.expires_at is not None and (owed := self._owed(job)):
            self.problems.append(f"{key} may expire, and {owed} was not sent")

    def _owed(self, job: Job) -> str | None:
        """What an end should have sent by now and did not; None: nothing."""
        contract = self.services.registry.contract(job.job_type)(self.services.tools)
        if contract.publishes_events and (job.job_key, job.status) not in self.services.bus.heard:
            return "its event"
        unsent = [
            one for one in contract.follow_ups(job) if body_of(one.as_json()) not in self.bodies
        ]
        return f"its follow-up {unsent[0].job}" if unsent else None

    def _rejected(self, body: str, reason: str) -> None:
        # A message about values that somebody changed meanwhile is a conflict, and a person's.
        if not self.edited:
            self.problems.append(f"a message was rejected: {reason} ({body})")

    def work(self, letter: Letter, deadline: datetime) -> None:
        """One run of a worker, and what becomes of its message."""
        services = self.services
        try:
            outcome: Outcome = services.runner.run(
                letter.body, deadline=Deadline(deadline, services.clock)
            )
        except UnavailableError as error:
            outcome = Broken(error)
        except Exception as error:  # noqa: BLE001  # whatever it is, it was not asked for
            self.problems.append(f"a worker raised {type(error).__name__}: {error}")
            outcome = Broken(error)
        self.schedule.log("  outcome:", outcome)
        reply = reply_to(outcome, last_receives=letter.near_its_last)
        self.schedule.point("end", END)
        self._note_answer(outcome)
        match reply:
            case HandBack(visible_at=at):
                letter.visible_at = max(at or self.schedule.now, self.schedule.now)
            case Reject(reason=reason):
                self._rejected(letter.body, reason)
                self.letters.remove(letter)
            case Ack():
                self.letters.remove(letter)
            case _:
                pass  # its visibility ends by itself

    def _note_answer(self, outcome: Outcome) -> None:
        if isinstance(outcome, Finished | Failed | Duplicate):
            self.points.changes += 1
            first = self.answers.setdefault(outcome.job_key, outcome)
            if first.result != outcome.result:
                self.problems.append(
                    f"a repeated run answered {dict(outcome.result)}, "
                    f"the first answered {dict(first.result)}"
                )

    def give_up(self, letter: Letter) -> None:
        """One run of the dead letters' consumer."""
        (received,) = self.services.dead_letters.receive_all({letter.body: letter.body})
        self.schedule.point("end", END)
        if received.fate is not Fate.LEFT:
            self.letters.remove(letter)

    def _publish(self) -> Actor:
        key = self.stream.pop(0)
        return self.actor("p", lambda: self._publish_one(key), key)

    def _publish_one(self, key: JobKey) -> None:
        # A stream tries again for a while; the worst that it can do is to give up at once.
        with self._survived():
            self.services.publisher.publish(key)

    def _sweep(self) -> Actor:
        self.sweeps = [at for at in self.sweeps if at > self.schedule.now]
        return self.actor("r", self._sweep_all, None)

    def _sweep_all(self) -> None:
        services, found = self.services, Found()
        with self._survived():
            found = services.finder.find(Sweep(), holder=self._holder())
        deadline = Deadline(self.schedule.now + SWEEP_TIMEOUT, services.clock)
        for handled in services.group.resolve(found.items, deadline=deadline):
            self.schedule.log(" ", handled.done)
            with self._survived():
                if handled.error is not None:
                    raise handled.error
        with self._survived():
            for shard in found.shards:
                services.leases.give_back(shard, holder=str(self._holder()))
        self.schedule.point("end", END)

    def _holder(self) -> str | None:
        """Whose the sweep lease is; without leases, sweeps overlap wherever they can."""
        actor = self.schedule.current
        return actor.name if actor and self.scenario.sweep_leases else None

    @contextmanager
    def _survived(self) -> Iterator[None]:
        """Our own side may fail: then somebody comes back. Anything else is a bug."""
        try:
            yield
        except UnavailableError as error:
            self.schedule.log("  gives up:", error)
        except Exception as error:  # noqa: BLE001  # whatever it is, it was not asked for
            self.problems.append(f"a service raised {type(error).__name__}: {error}")
