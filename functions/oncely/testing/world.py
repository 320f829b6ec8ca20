"""The simulation of the shipped services: workers, sweeps, streams, events and operators."""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, assert_never

from oncely.app import App
from oncely.contracts.message import encode_message
from oncely.contracts.registry import JobRegistry
from oncely.core.decide import absence_conclusive_at
from oncely.core.ended_jobs import awaits_publishing, holds_only_proof, is_complete
from oncely.core.errors import InvalidRequestError, InvariantError, UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import ENDED, IN_REVIEW, Event, Status
from oncely.core.outcomes import (
    Duplicate,
    Ended,
    NotRun,
    NotRunCause,
    RejectCause,
    Rejected,
    RunOutcome,
)
from oncely.core.profiles import EndpointGroup, RetryPolicy
from oncely.core.repairs import Repair
from oncely.core.schedule import latest_run_at
from oncely.core.table_guard import (
    CHECK_INTERVAL,
    PROVED,
    RETRY_AFTER,
    TableBlocked,
    TableIdentity,
)
from oncely.gates.gate import (
    GateSnapshot,
    Pause,
    PauseAction,
    PauseEntry,
    gate_name,
    open_circuit,
)
from oncely.history.checker import check_line
from oncely.history.erasure_log import ARCHIVER_TIMEOUT, ErasedJobs, Person
from oncely.history.lines import HistoryLine, backfill_line, change_line, history_line
from oncely.operate.erase import Erasure
from oncely.operate.own_tables import GATES, JOBS
from oncely.operate.repair_request import NO_VERSION, Repaired, RepairRequest
from oncely.operate.restore_proofs import Declaration
from oncely.reconcile.find_due_work import DueWork, SweepRequest
from oncely.run.dead_letters import DeadLetterOutcome
from oncely.run.process_batch import (
    Ack,
    Nack,
    Postpone,
    Reject,
    action_for,
    postpone_delay,
)
from oncely.testing.base_simulation import (
    END_FAULTS,
    FUNCTION_TIMEOUT,
    MAX_RECEIVE_COUNT,
    BaseSimulation,
)
from oncely.testing.memory_aws.calls import AwsCall
from oncely.testing.memory_aws.dynamodb import Item, Key
from oncely.testing.memory_aws.services import SqsMessage
from oncely.testing.rows import JobRows
from oncely.testing.scenario import GateClosing, PlannedRepair, RestoreMode, Scenario
from oncely.testing.schedule import START, Scheduler, SimulatedProcess, Task
from oncely.testing.simulated_services import ARCHIVE, REJECTS, SimulatedPorts

# The latest replay that must be deduplicated arrives this long before its row expires.
_REPLAY_MARGIN: Final = timedelta(hours=1)
# What a process did not handle is received again after this time.
_EVENT_VISIBILITY: Final = timedelta(minutes=6)
# Longer than a job may age.
PAUSE_TIME: Final = timedelta(days=3)
# An erasure that dies is run again, and a second one may overlap it.
_MAX_ERASURES: Final = 2
_GZIP: Final = b"\x1f\x8b"
# Deleting a table and restoring it under the same name takes minutes.
RESTORE_DURATION: Final = timedelta(minutes=10)
PROOFS_DELAY: Final = timedelta(minutes=5)
REPLAY_WINDOW: Final = timedelta(days=18)
# How many writes a restore may lose; more would add no behavior.
MAX_WRITES_BACK: Final = 3
# DynamoDB restores a table to a time within its last 35 days.
RECOVERY_WINDOW: Final = timedelta(days=35)
GENERATION: Final = "T1"
TAG_KEY: Final = "the key of tags"

_Snapshot = dict[str, dict[Key, Item]]


class Simulation(BaseSimulation):
    """A simulation of the shipped workers, sweeps, publisher and dead letter handler."""

    def __init__(self, scenario: Scenario, schedule: Scheduler) -> None:
        self.stream: list[JobKey] = []
        self.sweeps = [START + after for after in scenario.sweeps_at]
        self.swept_at = START
        self.repairs = list(scenario.repairs)
        self.first_outcomes: dict[JobKey, Ended | Duplicate] = {}
        self.conflicts: set[JobKey] = set()  # jobs whose conflicting message was rejected
        self.statuses_before_replay: dict[JobKey, Status] = {}  # of ended jobs
        self.bound_messages: dict[JobKey, JobRow] = {}  # as first claimed
        self.ended_rows: dict[JobKey, JobRow] = {}  # before their data was erased
        self.cancelled: set[JobKey] = set()  # no message may run them
        self.decided_by: dict[tuple[JobKey, int], str] = {}  # operators, by the version they saw
        self.last_lines: dict[JobKey, HistoryLine] = {}  # as if the history recorded every write
        super().__init__(scenario, schedule)
        self.interceptor.silent_tables = frozenset(() if scenario.closes_gate else (GATES,))
        self.interceptor.writable_tables = frozenset(
            (JOBS, GATES, *(n for c in scenario.contracts for n in c.written_table_names()))
        )
        self.job_rows = JobRows(self.aws.dynamodb, JOBS)
        for job in scenario.jobs:
            self.job_rows.put(job, due_shards=1)
        self.ports = SimulatedPorts(
            scenario,
            self.interceptor,
            self.aws,
            network=self.network,
            models=self.sandbox.providers,
            queue=self.queue,
        )
        self.app = App(self.ports.settings, JobRegistry(scenario.contracts), self.ports)
        self.table = RestorableTable(self)
        self.erasure = SimulatedErasure(self)
        self.holding = SimulatedHold(self)
        self.events = SimulatedEvents(self)

    @property
    def jobs(self) -> dict[JobKey, JobRow]:
        """The job rows."""
        return self.job_rows.all()

    def job(self, key: JobKey) -> JobRow | None:
        """Return the row of a job. Returns None if there is none."""
        return self.job_rows.get(key)

    def tasks(self) -> list[Task]:
        """Return the next delivery, publication and sweep."""
        tasks = super().tasks()
        if (lasts := self.scenario.store_outage) and self.interceptor.outage_until == START:
            begin = partial(self.new_process, "f", partial(self._fail_store, lasts))
            tasks.append(Task("outage", self.schedule.now, begin, optional=True))
        if self.stream:
            tasks.append(Task("publish", self.schedule.now, self._publish))
        if self.repairs:
            at = max(START + self.repairs[0].after, self.schedule.now)
            tasks.append(Task("repair", at, self._repair))
        free = self._sweep_free_at()
        times = [self.holding.due_at(job) for job in self.jobs.values()]
        times += self.table.trial_times(after=self.swept_at)
        due = [max(due_at, free) for due_at in times if due_at is not None]
        if due or self.sweeps:
            at = max(min([*due, *self.sweeps]), self.schedule.now, self.interceptor.outage_until)
            if (open_at := self.table.sweeps_from(at)) is not None:
                tasks.append(Task("sweep", open_at, self._sweep))
        tasks += [*self.erasure.tasks(), *self.holding.tasks(), *self.events.tasks()]
        return [*tasks, *self.table.tasks()]

    def next_phase(self) -> bool:
        """Require the erasure, if the scenario has one, before the message is replayed."""
        if self.erasure.require():
            return True
        return super().next_phase()

    def shared_state(self) -> object:
        """Return the rows, the alerts, the events, the first outcomes and the leases."""
        tokens = tuple(self.aws.dynamodb.tokens)
        seen = (self.ports.alerted, self.ports.published, self.first_outcomes)
        return (*seen, tokens, self.ports.failed_requests())

    def full_state(self) -> object:
        """Add the stream, the sweeps and the table."""
        outage_until = self.interceptor.outage_until
        planned = (self.sweeps, len(self.repairs), self.erasure.state(), self.holding.state())
        more = (self.stream, planned, self.table.state(), self.events.state())
        return (super().full_state(), more, outage_until)

    def violations(self) -> list[str]:
        """Return a sentence for each violated invariant, with those of the scenario."""
        return [
            *self.problems,
            *(f"a message is left in the queue: {one.body}" for one in self.queue.messages),
            *_job_violations(self),
            *_effect_violations(self),
            *_alert_violations(self),
            *self.scenario.check(self),
        ]

    def final_statuses(self) -> Iterator[str]:
        """Yield the final status of each job."""
        for job in self.jobs.values():
            yield f"{job.job_type} {job.status}"

    def describe(self) -> Iterator[str]:
        """Describe each job with its evidence."""
        for job in self.jobs.values():
            yield f"\n{job.job_key} is {job.status}, attempts {job.attempts}"
            for entry in job.evidence:
                at = (entry.at - START).total_seconds()
                yield f"  {at:>9.0f} s  {entry.actor}: {entry.event}, {entry.reason}"

    def expire(self) -> None:
        """Advance to just before the rows expire, so that they still deduplicate the replay."""
        self.statuses_before_replay = {
            key: job.status for key, job in self.jobs.items() if job.ended
        }
        expiries = [job.expires_at for job in self.jobs.values() if job.expires_at]
        if expiries:
            self.schedule.advance_to(min(expiries) - _REPLAY_MARGIN)
            self.schedule.log("the rows are about to expire; the message is replayed")

    def on_aws_write(self, call: AwsCall) -> None:
        """Follow the stream of the job table, and the queues."""
        if call.service == "dynamodb":
            for (table, (key, *_)), item in list(self.aws.dynamodb.undone.items()):
                if table == JOBS and (job := self.job(JobKey(key))) is not None:
                    self._on_write(self.job_rows.parse(item), job)
        if call.service == "sqs":
            rejects = self.aws.sqs.queues[REJECTS].messages
            for message in rejects:
                self._on_reject(message.body, message.attributes["reason"]["StringValue"])
            rejects.clear()
        super().on_aws_write(call)

    def _check_history(self, old: JobRow | None, new: JobRow) -> None:
        """Hold each write against the rules that do not come from the table of transitions."""
        if new.is_forged:
            return
        old = None if old is None or old.is_forged else old
        generation = self.aws.dynamodb.table_ids[JOBS]
        before = self.last_lines.get(new.job_key)
        if old is None or new.created_at != old.created_at:
            before = None
        elif before is None or before.version != old.version:
            before = backfill_line(old, generation=generation)
        line = change_line(old, new, generation=generation)
        self.last_lines[new.job_key] = line
        for rule in dict.fromkeys(check_line(before, line)):
            self.problems.append(f"{line.job_key}, version {line.version}: {rule.sentence}")

    def _on_write(self, before: JobRow | None, job: JobRow) -> None:
        key = job.job_key
        self._check_history(before, job)
        self.table.on_write(before, job)
        self.erasure.on_write(before, job)
        if job.status.is_cancelled:
            self.cancelled.add(key)
        elif job.status in IN_REVIEW:
            self.cancelled.discard(key)  # an operator may reopen it
        elif key in self.cancelled:
            self.problems.append(f"{key} was cancelled, and a message ran it")
        if holds_only_proof(job):
            ended = self.ended_rows.get(key)
            if ended is not None and (missing := self._unsent_follow_up(ended)):
                self.problems.append(f"{key} was erased, and {missing} was not sent")
            return
        if job.ended:
            self.ended_rows[key] = job
        self.problems.extend(self._row_problems(job))
        if awaits_publishing(job) and key not in self.stream:
            self.stream.append(key)

    def _row_problems(self, job: JobRow) -> Iterator[str]:
        key = job.job_key
        bound = self.bound_messages.setdefault(key, job) if job.fingerprint else job
        if (bound.fingerprint, bound.message) != (job.fingerprint, job.message):
            yield f"the message of {key} changed after its fingerprint was set"
        limit = self.app.registry.contract(job.job_type).effective_schedule_limit()
        if job.run_at is not None and job.claimed_at is not None:
            latest = latest_run_at(job.claimed_at, limit)
            if job.claimed_at < job.run_at <= latest:
                yield f"{key} was claimed before its run time"
        if job.expires_at is not None and not job.ended:
            yield f"{key} is {job.status} and may expire"
        elif job.expires_at is not None and (missing := self._unsent_follow_up(job)):
            yield f"{key} may expire, and {missing} was not sent"

    def _unsent_follow_up(self, job: JobRow) -> str | None:
        registry = self.app.registry
        publishes = registry.contract(job.job_type).publishes_events
        if publishes and (job.job_key, job.status) not in self.ports.published:
            return "its event"
        if not job.message:
            return None  # it was cancelled before its first message, or erased
        unsent = [
            one
            for one in registry.parse_row(job).with_tools(self.ports, job.provider).follow_ups(job)
            if encode_message(one.to_sent_dict()) not in self.bodies
        ]
        return f"its follow-up {unsent[0].job_type}" if unsent else None

    def _on_reject(self, body: str, reason: str) -> None:
        # After an edit of the business rows, a conflicting message is rejected on purpose.
        if not self.edited and body not in map(encode_message, self.scenario.wrong_messages):
            self.problems.append(f"a message was rejected: {reason} ({body})")

    def process(self, message: SqsMessage, deadline: datetime) -> None:
        """Run a worker, and ack, nack or reject its message."""
        # Another redelivery might make it a dead letter.
        near_limit = message.receive_count >= MAX_RECEIVE_COUNT - 1
        try:
            outcome: RunOutcome = self.app.job_runner.run(
                message.body, deadline=deadline, nack=not near_limit
            )
        except UnavailableError as error:
            outcome = NotRun(cause=NotRunCause.ERROR, error=error)
        except Exception as error:  # noqa: BLE001  # any other error is a bug
            self.problems.append(f"a worker raised {type(error).__name__}: {error}")
            outcome = NotRun(cause=NotRunCause.ERROR, error=error)
        self.schedule.log("  outcome:", outcome)
        action = action_for(outcome, near_receive_limit=near_limit)
        self.schedule.intercept("end", END_FAULTS)
        self._check_repeated_outcome(outcome)
        if isinstance(outcome, Rejected) and outcome.cause is RejectCause.CONFLICT:
            self._note_conflict(outcome)
        match action:
            case Nack(visible_at=at):
                message.visible_at = max(at or self.schedule.now, self.schedule.now)
            case Reject(reason=reason):
                self._on_reject(message.body, reason)
                self.remove(message)
            case Ack():
                self.remove(message)
            case Postpone():
                delay = postpone_delay(message.receive_count, MAX_RECEIVE_COUNT)
                message.visible_at = self.schedule.now + delay
            case _:
                assert_never(action)

    def _note_conflict(self, conflict: Rejected) -> None:
        if conflict.alerted and conflict.job_key is not None:
            self.conflicts.add(conflict.job_key)

    def _check_repeated_outcome(self, outcome: RunOutcome) -> None:
        if isinstance(outcome, Ended | Duplicate) and outcome.status in ENDED:
            self.interceptor.mutations += 1
            first = self.first_outcomes.setdefault(outcome.job_key, outcome)
            if self.erasure.has_erased(outcome.job_key):
                return  # its result is erased; it is a duplicate by its status
            # A restore loses what only the first response had.
            unknown = {"request_id": None} if self.table.restored else {}
            if {**first.result, **unknown} != {**outcome.result, **unknown}:
                self.problems.append(
                    f"a duplicate returned {dict(outcome.result)}, "
                    f"the first run returned {dict(first.result)}"
                )

    def dead_letter(self, message: SqsMessage) -> None:
        """Run the dead letter handler."""
        (handled,) = self.app.dead_letter_handler.handle_batch({message.body: message.body})
        self.schedule.intercept("end", END_FAULTS)
        if handled.outcome is not DeadLetterOutcome.LEFT_IN_QUEUE:
            self.remove(message)

    def _fail_store(self, lasts: timedelta) -> None:
        self.interceptor.outage_until = self.schedule.now + lasts

    def _repair(self) -> SimulatedProcess:
        planned = self.repairs.pop(0)
        return self.new_process("o", lambda: self._repair_as(planned), len(self.repairs))

    def _repair_as(self, planned: PlannedRepair) -> None:
        key = self.app.registry.parse_mapping(self.scenario.message).job_key()
        with self.tolerate_unavailable():
            row = self.ports.job_store().get(key)
            if row is None and planned.repair is not Repair.CANCEL:
                return
            request = RepairRequest(
                key=key,
                repair=planned.repair,
                version=NO_VERSION if row is None else row.version,
                reason="seen at the provider",
                actor=planned.actor,
                reference=planned.reference or (None if row is None else row.provider_ref),
                run_at=planned.run_at,
            )
            outcome = self.app.repairer.repair(request)
            self.schedule.log("  outcome:", outcome)
            if isinstance(outcome, Repaired) and outcome.before is not None:
                self._check_one_operator(planned.actor, outcome.before)
        self.schedule.intercept("end", END_FAULTS)

    def _check_one_operator(self, actor: str, seen: JobRow) -> None:
        """Of the operators who saw the same row, only one decides."""
        if self.decided_by.setdefault((seen.job_key, seen.version), actor) != actor:
            self.problems.append(f"two operators decided on version {seen.version} of one job")

    def _publish(self) -> SimulatedProcess:
        key = self.stream.pop(0)
        return self.new_process("p", lambda: self._publish_one(key), key)

    def _publish_one(self, key: JobKey) -> None:
        # A stream retries for a while; the worst case is no retry at all.
        with self.tolerate_unavailable():
            self.app.publisher.publish(key)

    def _sweep(self) -> SimulatedProcess:
        self.sweeps = [at for at in self.sweeps if at > self.schedule.now]
        self.swept_at = self.schedule.now
        return self.new_process("r", self._sweep_all)

    def _sweep_all(self) -> None:
        app, ports, due_work = self.app, self.ports, DueWork()
        with self.tolerate_unavailable():
            due_work = app.due_work_finder.find(SweepRequest(), holder=self._holder())
        deadline = self.schedule.now + FUNCTION_TIMEOUT
        for handled in app.group_resolver.resolve(due_work.items, deadline=deadline):
            self.schedule.log(" ", handled.resolution)
            with self.tolerate_unavailable():
                if handled.error is not None:
                    raise handled.error
        with self.tolerate_unavailable():
            for shard in due_work.shards:
                ports.sweep_leases.release(shard, holder=str(self._holder()))
        self.schedule.intercept("end", END_FAULTS)

    def _sweep_free_at(self) -> datetime:
        """Return when the next sweep can start."""
        if not self.scenario.sweep_leases:
            return START
        return max(self.job_rows.lease_ends(), default=START)

    def _holder(self) -> str | None:
        # Without leases, sweeps overlap wherever they can.
        process = self.schedule.current
        return process.name if process and self.scenario.sweep_leases else None

    @contextmanager
    def tolerate_unavailable(self) -> Iterator[None]:
        # AWS may be unavailable; a later run continues. Any other error is a bug.
        try:
            yield
        except UnavailableError as error:
            self.schedule.log("  gives up:", error)
        except Exception as error:  # noqa: BLE001  # any other error is a bug
            self.problems.append(f"a service raised {type(error).__name__}: {error}")


# A job table that may be restored once to an earlier time, while everything else continues.


@dataclass
class RestorableTable:
    """The tables as they were after the last writes, and what the archive has of them."""

    world: Simulation
    restored: bool = False
    lost: frozenset[JobKey] = frozenset()  # jobs without a row after the restore
    snapshots: list[tuple[datetime, _Snapshot]] = field(default_factory=list)  # since when

    def __post_init__(self) -> None:
        self._dynamo, self._ports = self.world.aws.dynamodb, self.world.ports
        self._dynamo.table_ids[JOBS] = GENERATION
        identity = TableIdentity(
            deployment=self.world.scenario.deployment, table_id=GENERATION, tag_key=TAG_KEY
        )
        with self._ports.interceptor.silence():
            self._ports.table_identity.write(identity, replacing=None)
            for contract in self.world.scenario.contracts:
                if self.world.scenario.must_prove_lookups and self.world.scenario.lookups_proved:
                    self._ports.table_identity.set_lookup(contract.job_type, PROVED, expected=None)
        self.snapshots.append((self.world.schedule.now, self._snapshot()))

    def on_write(self, old: JobRow | None, new: JobRow) -> None:
        """Save a snapshot after a write, for a restore."""
        if self.world.scenario.restore is None or self.restored:
            return
        line = history_line(old, new, generation=GENERATION, at=self.world.schedule.now)
        if line is not None and self.world.scenario.restore is RestoreMode.ARCHIVED:
            with self._ports.interceptor.silence():
                self._ports.history.put(line.at.date(), line.job_type, new.job_key, (line,))
        latest = (self.world.schedule.now, self._snapshot())
        self.snapshots = [*self.snapshots, latest][-MAX_WRITES_BACK - 1 :]

    def tasks(self) -> Iterator[Task]:
        """Yield a restore to each snapshot or, after one, the restore of its proofs."""
        begin = self.world.new_process
        if self.world.scenario.restore is None:
            return
        if self.restored and self._identity().table_id == GENERATION:
            at = self.world.schedule.now + PROOFS_DELAY
            yield Task("proofs", at, partial(begin, "o", self._restore_proofs))
        for back in range(1, len(self.snapshots)) if not self.restored else ():
            until, _ = self.snapshots[-back]
            at = self.world.schedule.now + RESTORE_DURATION
            if until < self.world.schedule.now - RECOVERY_WINDOW:
                return
            restore = partial(begin, "x", partial(self._restore, back))
            yield Task(f"restore{back}", at, restore, optional=True)

    def sweeps_from(self, now: datetime) -> datetime | None:
        """Return when sweeps can start. Returns None while the table is not declared."""
        if not isinstance(self._ports.table_guard.check(), TableBlocked):
            return now
        opens_at = self._identity().opens_at
        return None if opens_at is None else max(now, opens_at + RETRY_AFTER)

    def state(self) -> object:
        """Return the state that determines what follows."""
        trials = (*self.trial_times(after=self.world.swept_at), *self._proved())
        if self.world.scenario.restore is None:
            return trials
        known = self._ports.table_guard
        guard = (known._state, known._next_check)  # noqa: SLF001  # for a digest only
        images = () if self.restored else tuple(self.snapshots)
        return (self._dynamo.table_ids[JOBS], guard, images, self._ports.archive_state(), trials)

    def trial_times(self, *, after: datetime) -> Iterator[datetime]:
        """Yield when a sweep tries a lookup on a finished job. After a failed one, it waits."""
        for key in self._lookups().values():
            job = self.world.job(JobKey(key))
            if key != PROVED and job is not None:
                policy = self.world.app.registry.contract(job.job_type).policy_of(job)
                yield max(absence_conclusive_at(job, policy), after + CHECK_INTERVAL)

    def _proved(self) -> list[str]:
        return sorted(name for name, known in self._lookups().items() if known == PROVED)

    def _lookups(self) -> Mapping[str, str]:
        return self._identity().lookups if self.world.scenario.must_prove_lookups else {}

    def _identity(self) -> TableIdentity:
        with self._ports.interceptor.silence():
            identity = self._ports.table_identity.identity()
        assert identity is not None, "only a restore replaces it"  # noqa: S101  # for the type checker
        return identity

    def _snapshot(self) -> _Snapshot:
        # Items are replaced and never changed.
        return {name: dict(items) for name, items in self._dynamo.tables.items() if name != GATES}

    def _restore(self, back: int) -> None:
        # Where business rows are restored too, only the provider knows the rest.
        _, snapshot = self.snapshots[-1 - back]
        lost = (
            snapshot
            if self.world.scenario.restore is RestoreMode.LAGGING
            else {JOBS: snapshot[JOBS]}
        )
        before = frozenset(self.world.job_rows.all())
        for name, items in lost.items():
            table = self._dynamo.tables[name]
            table.clear()
            table.update(items)
        self.restored, self.lost = True, before - self.world.job_rows.all().keys()
        self._dynamo.table_ids[JOBS] = "T2"

    def _restore_proofs(self) -> None:
        # The schedule does not intervene: after an interruption, the command runs again.
        with self.world.interceptor.silence():
            result = self.world.app.proof_restorer.replace_table(replays_for=REPLAY_WINDOW)
        if not isinstance(result, Declaration):
            raise InvariantError(result.reason)


# Provider events: late, repeated, out of order, forged, or lost.


@dataclass
class _QueuedEvent:
    """An event that a provider published. If it is lost, only a schedule delivers it."""

    body: str
    at: datetime
    lost: bool


class SimulatedEvents:
    """The events of a scenario. What stays in the queue may be received again."""

    def __init__(self, simulation: Simulation) -> None:
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
        event.at = self._simulation.schedule.now + _EVENT_VISIBILITY

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


# The gate: an operator pauses a job type, or the circuit of a provider opens.


class SimulatedHold:
    """The hold of a scenario. It begins at any time, or never."""

    def __init__(self, simulation: Simulation) -> None:
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


# An erasure that races workers, sweeps and the archiver, and a stream that feeds the archiver.


@dataclass
class SimulatedErasure:
    """The stream, its archiver, and one erasure that is repeated until it is complete."""

    world: Simulation
    lines: list[HistoryLine] = field(default_factory=list)  # in the stream
    archiving: bool = False
    erasing: int = 0
    tables_done: Erasure | None = None
    complete: bool = False
    required: bool = False  # all other work is done
    known: frozenset[JobKey] = frozenset()  # jobs by then; a replay of a lost one is a new job
    _batches: int = 0

    def on_write(self, old: JobRow | None, new: JobRow) -> None:
        """Add the line of a change to the stream."""
        if self.world.scenario.erases is not None:
            line = history_line(old, new, generation=GENERATION, at=self.world.schedule.now)
            self.lines += [] if line is None else [line]

    def tasks(self) -> Iterator[Task]:
        """Yield the next batch of the stream, and the next part of the erasure."""
        schedule, person = self.world.schedule, self.world.scenario.erases
        if self.lines and not self.archiving:
            yield Task("archive", schedule.now, self._begin_archiver)
        if person is None or self.complete or self.erasing >= _MAX_ERASURES:
            return
        if (open_at := self.world.table.sweeps_from(schedule.now)) is None:
            return  # until the proofs of a restored table are restored
        if self.tables_done is None:
            erase = partial(self._erase_tables, person)
            begin = partial(self.world.new_process, "x", erase)
            yield Task("erase", open_at, begin, optional=not self.required)
            return
        ready = self._erased().effective_at or open_at
        erase = partial(self._erase_archive, person, self.tables_done)
        begin = partial(self.world.new_process, "x", erase)
        yield Task("erase-archive", max(ready, open_at), begin)

    def require(self) -> bool:
        """Erase now, or again. Returns False if nothing is left to erase."""
        if self.world.scenario.erases is None or self.required:
            return False
        self.required = True
        self.known = frozenset(self.world.jobs)
        if any(job.erasure_requested_at is None for job in self.world.jobs.values()):
            # A job that was created later. The operator runs the erasure again after the messages.
            self.tables_done, self.complete = None, False
        return True

    def state(self) -> object:
        """Return the state that determines what follows."""
        if self.world.scenario.erases is None:
            return None
        own = (self.lines, self.archiving, self.erasing, self.tables_done, self.complete)
        return (own, self.required, self._batches, self.world.ports.archive_state())

    def has_erased(self, key: JobKey) -> bool:
        """Return whether an erasure of this job was recorded."""
        return self.world.scenario.erases is not None and self._erased().has_key(key)

    def _erased(self) -> ErasedJobs:
        with self.world.interceptor.silence():
            return self.world.ports.erasure_log.erased()

    def _begin_archiver(self) -> SimulatedProcess:
        batch, self.archiving = list(self.lines), True
        self._batches += 1
        name = str(self._batches)
        process = self.world.new_process("h", lambda: self._archive(batch, name), name)
        # Lambda ends it then, so it writes nothing later.
        process.latest_call_at = process.killed_at = self.world.schedule.now + ARCHIVER_TIMEOUT
        return process

    def _archive(self, batch: list[HistoryLine], name: str) -> None:
        try:
            with self.world.tolerate_unavailable():
                self.world.app.history_writer.write(batch, batch=name)
                del self.lines[: len(batch)]
        finally:
            # Lambda retries a batch, and starts no other before.
            self.archiving = False

    def _erase_tables(self, person: Person) -> None:
        with self._attempt():
            done = self.world.app.eraser.erase_tables(person, actor="ada")
            self.world.schedule.intercept("end", END_FAULTS)
            self.tables_done = done

    def _erase_archive(self, person: Person, done: Erasure) -> None:
        with self._attempt():
            self.world.app.eraser.erase_archive(person, done, actor="ada")
            self.complete = True

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        self.erasing += 1
        try:
            # Until the proofs of a restored table are restored, it is refused.
            with suppress(InvalidRequestError), self.world.tolerate_unavailable():
                yield
        finally:
            self.erasing -= 1


def personal_data_left(world: Any, *marks: str) -> Iterator[str]:  # noqa: ANN401  # a simulation
    """Yield where one of these texts is left: job rows, business rows except orders, history."""
    known = world.erasure.known - world.table.lost
    jobs = [job for key, job in world.jobs.items() if key in known]
    lines = [
        line
        for versions in world.aws.s3.buckets[ARCHIVE].objects.values()
        for one in versions
        if one.body is not None
        for line in _lines(one.body)
    ]
    places: list[tuple[str, object]] = [
        *((f"the row of {job.job_key}", job) for job in jobs if is_complete(job)),
        *((f"a row of {name}", row) for name, row in world.rows.all() if name != "orders"),
        *(
            (f"the history of {line['job_key']}", line)
            for line in lines
            if line.get("job_key") in known
        ),
    ]
    for place, content in places:
        yield from (f"{place} holds {mark!r}" for mark in marks if mark in repr(content))
    for job in jobs:
        if job.erasure_requested_at is None:
            yield f"{job.job_key} is not marked"


def _lines(body: bytes) -> Iterator[dict[str, Any]]:
    """The lines of a history object. Other objects are not compressed."""
    if body.startswith(_GZIP):
        yield from map(json.loads, gzip.decompress(body).splitlines())


# The invariants at the end of a schedule: at most one effect, a known outcome, and its proof.


def _alert_violations(simulation: Simulation) -> Iterator[str]:
    alerted = simulation.ports.alerted
    for key in simulation.conflicts - alerted:
        yield f"a message of {key} was rejected, but no alert was sent"
    for job in simulation.scenario.jobs:
        if job.is_forged and job.job_key not in alerted:
            yield f"the row of {job.job_key} was forged, but no alert was sent"


def _job_violations(simulation: Simulation) -> Iterator[str]:
    contracts = {contract.job_type: contract for contract in simulation.scenario.contracts}
    for row in simulation.jobs.values():
        yield from _row_violations(simulation, row, contracts[row.job_type].policy_of(row))


def _row_violations(simulation: Simulation, row: JobRow, policy: RetryPolicy) -> Iterator[str]:
    if row.status in IN_REVIEW:
        if row.due_at is None and row.job_key not in simulation.ports.alerted:
            yield f"{row.job_key} needs review, but no alert or summary was sent or is due"
        if row.expires_at is not None:
            yield f"{row.job_key} needs review and may expire"
    elif not row.ended:
        yield f"{row.job_key} is still {row.status}"
    elif row.expires_at is None:
        yield f"{row.job_key} is {row.status} and never expires"
    elif row.due_at is not None:
        yield f"{row.job_key} is {row.status}, may expire, and is still due"
    first = simulation.statuses_before_replay.get(row.job_key)
    if first is not None and first is not row.status:
        yield f"{row.job_key} was {first}; a late replay made it {row.status}"
    # The claim that exceeds the limit is counted, but executes nothing.
    max_attempts = policy.limits.max_attempts + (row.status in IN_REVIEW)
    if row.attempts > max_attempts:
        yield f"{row.job_key} had {row.attempts} attempts, {policy.limits.max_attempts} are allowed"


def _effect_violations(simulation: Simulation) -> Iterator[str]:
    scenario = simulation.scenario
    key = simulation.app.registry.parse_mapping(scenario.message).job_key()
    effects, job = scenario.count_effects(simulation), simulation.job(key)
    if effects > 1:
        yield f"the effect of {key} happened {effects} times"
    if job is None:
        yield f"{key} was never claimed"
    elif job.status.is_finished and effects == 0:
        yield f"{key} is finished, but its effect never happened"
    elif job.ended and not job.status.is_finished and effects:
        yield f"{key} is {job.status}, but its effect happened"
