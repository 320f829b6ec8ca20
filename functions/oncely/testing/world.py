"""The simulation of the shipped services: workers, sweeps of due rows, a stream, late replays."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Final, assert_never

from oncely.app import App
from oncely.contracts.message import encode_message
from oncely.contracts.registry import ContractRegistry
from oncely.core.ended_jobs import awaits_publishing, holds_only_proof
from oncely.core.errors import InvariantError, UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import ENDED, IN_REVIEW, Status
from oncely.core.outcomes import (
    Duplicate,
    Ended,
    NotRun,
    NotRunCause,
    RejectCause,
    Rejected,
    RunOutcome,
)
from oncely.core.profiles import RetryPolicy
from oncely.core.repairs import Repair
from oncely.core.schedule import latest_run_at
from oncely.history.checker import check_line
from oncely.history.lines import HistoryLine, backfill_line, change_line
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
from oncely.testing.erasing import SimulatedErasure
from oncely.testing.event_delivery import SimulatedEvents
from oncely.testing.holding import SimulatedHold
from oncely.testing.memory_aws.calls import AwsCall
from oncely.testing.memory_aws.services import SqsMessage
from oncely.testing.restored_table import REPLAY_WINDOW, RestorableTable
from oncely.testing.rows import JobRows
from oncely.testing.scenario import PlannedRepair, Scenario
from oncely.testing.schedule import Scheduler
from oncely.testing.simulated_services import REJECTS, SimulatedPorts
from oncely.testing.tasks import START, SimulatedProcess, Task

# The latest replay that must be deduplicated arrives this long before its row expires.
_REPLAY_MARGIN: Final = timedelta(hours=1)


class Simulation(BaseSimulation):
    """A simulation of the shipped workers, sweeps, publisher and dead letter handler."""

    def __init__(self, scenario: Scenario, schedule: Scheduler) -> None:
        self.stream: list[JobKey] = []
        self.sweeps = [START + after for after in scenario.sweeps_at]
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
            (JOBS, GATES, *(n for c in scenario.contracts for n in c.resources.written_table_names))
        )
        self.job_rows = JobRows(self.aws.dynamodb, JOBS)
        for job in scenario.jobs:
            self.job_rows.put(job, due_shards=1)
        self.ports = SimulatedPorts(
            scenario,
            self.interceptor,
            self.aws,
            network=self.network,
            objects=self.objects,
            models=self.sandbox.providers,
        )
        self.app = App(self.ports.settings, ContractRegistry(scenario.contracts), self.ports)
        self.table = RestorableTable(scenario, schedule, self.ports)
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
        due = [max(due_at, free) for due_at in times if due_at is not None]
        if due or self.sweeps:
            at = max(min([*due, *self.sweeps]), self.schedule.now, self.interceptor.outage_until)
            if (open_at := self.table.sweeps_from(at)) is not None:
                tasks.append(Task("sweep", open_at, self._sweep))
        restores = self.table.tasks(self.new_process, self._restore_proofs)
        tasks += [*self.erasure.tasks(), *self.holding.tasks(), *self.events.tasks()]
        return [*tasks, *restores]

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
        for message in self.aws.sqs.queues[REJECTS].messages if call.service == "sqs" else ():
            self._on_reject(message.body, message.attributes["reason"]["StringValue"])
        self.aws.sqs.queues[REJECTS].messages.clear()
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
        contract = self.app.registry.contract(job.job_type)(self.ports)
        if contract.publishes_events and (job.job_key, job.status) not in self.ports.published:
            return "its event"
        unsent = [
            one
            for one in contract.follow_ups(job)
            if encode_message(one.to_sent_dict()) not in self.bodies
        ]
        return f"its follow-up {unsent[0].job}" if unsent else None

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
        _, message = self.app.registry.parse_mapping(self.scenario.message)
        with self.tolerate_unavailable():
            row = self.ports.job_store().get(self.scenario.contract.key(message))
            if row is None and planned.repair is not Repair.CANCEL:
                return
            request = RepairRequest(
                key=self.scenario.contract.key(message),
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

    def _restore_proofs(self) -> None:
        # The schedule does not intervene: after an interruption, the command runs again.
        with self.interceptor.silence():
            result = self.app.proof_restorer.replace_table(replays_for=REPLAY_WINDOW)
        if not isinstance(result, Declaration):
            raise InvariantError(result.reason)

    @contextmanager
    def tolerate_unavailable(self) -> Iterator[None]:
        # AWS may be unavailable; a later run continues. Any other error is a bug.
        try:
            yield
        except UnavailableError as error:
            self.schedule.log("  gives up:", error)
        except Exception as error:  # noqa: BLE001  # any other error is a bug
            self.problems.append(f"a service raised {type(error).__name__}: {error}")


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
    _, message = simulation.app.registry.parse_mapping(scenario.message)
    key = scenario.contract.key(message)
    effects, job = scenario.count_effects(simulation), simulation.job(key)
    if effects > 1:
        yield f"the effect of {key} happened {effects} times"
    if job is None:
        yield f"{key} was never claimed"
    elif job.status.is_finished and effects == 0:
        yield f"{key} is finished, but its effect never happened"
    elif job.ended and not job.status.is_finished and effects:
        yield f"{key} is {job.status}, but its effect happened"
