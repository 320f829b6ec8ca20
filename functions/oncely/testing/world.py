"""What the actors act in: a queue, a stream, sweeps when rows fall due, replays, and expiry."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from oncely.contract import COMMIT_BUDGET, body_of
from oncely.domain.due import awaits_archive
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.profiles import Safety
from oncely.services.find_due import Item, Sweep
from oncely.services.outcomes import Broken, Duplicate, Failed, Finished, Outcome
from oncely.services.replies import Ack, HandBack, Reject, reply_to
from oncely.services.run_job import Deadline
from oncely.testing.actors import START, Actor, Landing, Task
from oncely.testing.deployment import Deployment, Hooks
from oncely.testing.digest import Digester
from oncely.testing.letters import Letter, Letters
from oncely.testing.memory import MemoryJobStore
from oncely.testing.points import Points
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import Schedule
from oncely.testing.script import DIE

# What a function of the reconciler or of the stream has.
SWEEP_TIMEOUT: Final = timedelta(minutes=1)
_END: Final = (DIE,)


class World:
    """One run of a scenario; it notes at once what breaks the promise in passing."""

    def __init__(self, scenario: Scenario, schedule: Schedule) -> None:
        self.scenario = scenario
        self.schedule = schedule
        self.digest = Digester().of
        self.store = MemoryJobStore()
        self.letters = Letters()
        self.stream: list[JobKey] = []
        self.sweeps = [START + after for after in scenario.sweeps_at]
        self.landings: list[Landing] = []
        self.answers: dict[JobKey, Finished | Failed | Duplicate] = {}  # the first of each job
        self.problems: list[str] = []
        self.expired: dict[JobKey, Status] = {}  # how each ended whose row is gone
        self.phase = 0
        self.edited = False
        hooks = Hooks(
            wrote=self._wrote,
            sent=self.send,
            lands_later=self.landings.append,
            rejected=self._rejected,
        )
        scenario.rows(self.store.business)
        self.points = Points(schedule, self.digest)
        self.services = Deployment(scenario, self.points, self.store, hooks)
        self.providers = self.services.targets
        schedule.agenda = self
        for _ in range(scenario.copies):
            self.send(body_of(scenario.message))

    def job(self, key: JobKey) -> Job | None:
        """The row, or what the archive holds of it."""
        return self.store.jobs.get(key) or self.services.archive.jobs.get(key)

    def send(self, body: str, delay: timedelta = timedelta(0)) -> None:
        """Put a message into the queue."""
        self.letters.send(body, at=self.schedule.now + delay)

    def tasks(self) -> list[Task]:
        """The next delivery, publication and sweep."""
        found = []
        letter = self.letters.first()
        if letter is not None:
            deliver = partial(self._deliver, letter)
            found.append(Task("deliver", letter.visible_at, deliver))
        if self.stream:
            found.append(Task("publish", self.schedule.now, self._publish))
        due = [job.due_at for job in self.store.jobs.values() if job.due_at is not None]
        if due or self.sweeps:
            at = max(min([*due, *self.sweeps]), self.schedule.now)
            found.append(Task("sweep", at, self._sweep))
        if not self.edited and self.scenario.edit is not None:
            found.append(Task("edit", self.schedule.now, self._edit, optional=True))
        return found

    def next_landing(self, until: datetime) -> Landing | None:
        """Take out the request that arrives next, if one does until then."""
        due = [landing for landing in self.landings if landing.at <= until]
        if not due:
            return None
        first = min(due, key=lambda landing: landing.at)
        self.landings.remove(first)
        self.points.changes += 1
        return first

    def quiet(self) -> bool:
        """First the message is replayed, then once more after its row has expired."""
        if self.landings:
            self.schedule.move_to(max(landing.at for landing in self.landings))
            return True
        self.phase += 1
        if self.phase == 1:
            self.schedule.log("all is quiet; the message is replayed")
            self.send(body_of(self.scenario.message))
        elif self.phase == 2:  # noqa: PLR2004  # the second phase
            self._expire()
            self.send(body_of(self.scenario.message))
        else:
            return False
        return True

    def _expire(self) -> None:
        for job in list(self.store.jobs.values()):
            if job.expires_at is not None:
                self.schedule.move_to(job.expires_at)
                self.schedule.log(f"{job.job_key} expires; the message is replayed")
                self.store.expire(job.job_key)
                self.expired[job.job_key] = job.status
                terms = self.services.registry.contract(job.job_type).terms
                if terms.safety is Safety.NATURAL:
                    self.answers.pop(job.job_key, None)  # it may be run again, by design
                self.points.changes += 1

    def _wrote(self, key: JobKey) -> None:
        """The stream shows each write."""
        job = self.store.jobs.get(key)
        if job is None:
            return
        if awaits_archive(job) and key not in self.stream:
            self.stream.append(key)
        kept = self.services.archive.jobs.get(key)
        if job.expires_at is not None and (
            kept is None or (kept.status, kept.result) != (job.status, job.result)
        ):
            self.problems.append(f"{key} may expire, and its end is not in the archive")

    def _rejected(self, body: str, reason: str) -> None:
        # A message about values that somebody changed meanwhile is a conflict, and a person's.
        if not self.edited:
            self.problems.append(f"a message was rejected: {reason} ({body})")

    def _deliver(self, letter: Letter) -> Actor:
        letter.receive(self.schedule.now)
        if letter.is_dead:
            return self._actor("d", lambda: self._give_up(letter), letter.body)
        deadline = self.schedule.now + timedelta(seconds=self.scenario.seconds)
        told = (letter.body, letter.receives, deadline)
        worker = self._actor("w", lambda: self._work(letter, deadline), told)
        # The last moment at which it may still call its provider.
        calls_take = self.scenario.contract.terms.profile.request_timeout + COMMIT_BUDGET
        worker.last_moment = deadline - calls_take
        return worker

    def _actor(self, kind: str, perform: Callable[[], None], told: object) -> Actor:
        actor = self.schedule.actor(kind, perform)
        actor.history = self.digest((kind, told, self.schedule.now))
        actor.last_moment = self.schedule.now + SWEEP_TIMEOUT
        return actor

    def _work(self, letter: Letter, deadline: datetime) -> None:
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
        self.schedule.point("end", _END)
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

    def _give_up(self, letter: Letter) -> None:
        self.services.dead_letters.receive_all({letter.body: letter.body})
        self.schedule.point("end", _END)
        self.letters.remove(letter)

    def _publish(self) -> Actor:
        key = self.stream.pop(0)
        return self._actor("p", lambda: self._publish_one(key), key)

    def _publish_one(self, key: JobKey) -> None:
        # A stream tries again for a while; the worst that it can do is to give up at once.
        with self._survived():
            self.services.publisher.publish(key)

    def _edit(self) -> Actor:
        self.edited = True

        def edit() -> None:
            self.points.changes += 1
            if self.scenario.edit is not None:
                for message in self.scenario.edit(self.store.business):
                    self.send(body_of(message))

        return self._actor("e", edit, None)

    def _sweep(self) -> Actor:
        self.sweeps = [at for at in self.sweeps if at > self.schedule.now]
        return self._actor("r", self._sweep_all, None)

    def _sweep_all(self) -> None:
        items: tuple[Item, ...] = ()
        with self._survived():
            items = self.services.finder.find(Sweep()).items
        for item in items:
            with self._survived():
                done = self.services.reconciler.resolve(item.key, message=item.message)
                self.schedule.log(" ", done)
        self.schedule.point("end", _END)

    @contextmanager
    def _survived(self) -> Iterator[None]:
        """Our own side may fail: then somebody comes back. Anything else is a bug."""
        try:
            yield
        except UnavailableError as error:
            self.schedule.log("  gives up:", error)
        except Exception as error:  # noqa: BLE001  # whatever it is, it was not asked for
            self.problems.append(f"a service raised {type(error).__name__}: {error}")
