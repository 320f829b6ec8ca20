"""The base of a simulation: a queue, a clock, AWS, providers, concurrent edits, and replays."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, Final, TypeVar

from oncely.contracts.message import encode_message
from oncely.core.profiles import COMMIT_BUDGET
from oncely.operate.own_tables import GATES, GATES_SCHEMA, JOBS, JOBS_SCHEMA
from oncely.testing.digest import Digester
from oncely.testing.in_process import InProcessSandbox, in_process_network
from oncely.testing.interception import Interceptor
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.calls import AwsCall
from oncely.testing.memory_aws.services import MemoryQueue, SqsMessage
from oncely.testing.rows import BusinessRows
from oncely.testing.sandbox.http_messages import SandboxRequest, counting_ids
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import InFlightRequest, Scheduler, SimulatedProcess, Task, WallClock
from oncely.testing.script import DIE

_T = TypeVar("_T")
# Timeout of a worker, of the reconciler and of the functions of the stream.
FUNCTION_TIMEOUT: Final = timedelta(minutes=1)
END_FAULTS: Final = (DIE,)
# Few, so that schedules reach the dead letters.
MAX_RECEIVE_COUNT: Final = 5


class BaseSimulation(ABC):
    """One run of a scenario, which records violations as they happen."""

    def __init__(self, scenario: Scenario, schedule: Scheduler) -> None:
        self.scenario = scenario
        self.schedule = schedule
        self.digest = Digester().digest
        self.interceptor = Interceptor(schedule, self.digest, self.on_aws_write)
        self.clock = WallClock(schedule)
        self.queue = MemoryQueue()
        self.bodies: set[str] = set()  # every message ever sent
        self.problems: list[str] = []
        self.phase = 0
        self.edited = False
        options = SandboxOptions(clock=self.clock.now, new_id=counting_ids())
        found = scenario.providers(options)
        models = {name: one for name, one in found.items() if one is not None}
        self.aws = self._new_account(models)
        self.rows = BusinessRows(self.aws.dynamodb, own_tables=(JOBS, GATES))
        self.sandbox = _SimulatedSandbox(models=models, options=options)
        self.sandbox.interceptor = self.interceptor
        for fault in scenario.provider_faults:
            self.sandbox.faults.add(**fault)
        self.network = in_process_network(self._serve, self.clock.now)
        self.providers: dict[str, Any] = dict(found)
        self._last_shared_digest = 0
        self._digested_at_mutation = -1
        scenario.seed_rows(self.rows)
        schedule.task_source = self
        for _ in range(scenario.duplicate_messages):
            self.send(encode_message(scenario.message))

    def _new_account(self, models: Mapping[str, ProviderSandbox]) -> MemoryAws:
        services = {}
        for name, model in models.items():
            if (client := model.aws_client()) is not None:
                services[client.service] = client
                self.interceptor.effect_services[client.service] = name
        tables = {
            table.name: table
            for contract in self.scenario.contracts
            for table in contract.all_tables()
            if not isinstance(table, str)
        }
        tables |= {JOBS: JOBS_SCHEMA, GATES: GATES_SCHEMA}
        account = MemoryAws(now=self.clock.now, tables=tables, services=services)
        account.intercept = self._intercept
        return account

    def _intercept(self, call: AwsCall, perform: Callable[[], _T]) -> _T:
        if "Key" in call.request and call.service == "dynamodb":
            self.rows.ensure_table(call.request["TableName"], call.request["Key"])
        timeout = self._request_timeout
        return self.interceptor.aws_call(call, perform, self.aws.dynamodb, timeout)

    def _serve(self, name: str, request: SandboxRequest) -> bytes | OSError:
        timeout = self._request_timeout
        return self.interceptor.provider_call(name, request, self.sandbox, timeout)

    def on_aws_write(self, call: AwsCall) -> None:
        """Follow a call that may have changed something, such as one that sent messages."""
        del call
        self.bodies.update(one.body for one in self.queue.messages)

    @abstractmethod
    def process(self, message: SqsMessage, deadline: datetime) -> None:
        """Process a message, as a worker that Lambda kills at the deadline."""

    @abstractmethod
    def dead_letter(self, message: SqsMessage) -> None:
        """Handle a dead letter."""

    @abstractmethod
    def expire(self) -> None:
        """Advance to the latest time of a replay, and expire what is due by then."""

    @abstractmethod
    def shared_state(self) -> object:
        """Return the state outside the processes, for a digest."""

    @abstractmethod
    def violations(self) -> list[str]:
        """Return the invariants that do not hold at the end of the schedule."""

    @abstractmethod
    def final_statuses(self) -> Iterator[str]:
        """Yield the final status of each job."""

    @abstractmethod
    def describe(self) -> Iterator[str]:
        """Describe the final state, for a replay."""

    def send(self, body: str) -> None:
        """Send a message to the queue."""
        self.bodies.add(body)
        number, now = next(self.aws.sqs.message_ids), self.schedule.now
        self.queue.messages.append(SqsMessage(str(number), body, sent_at=now, visible_at=now))

    def remove(self, message: SqsMessage) -> None:
        """Remove a message, if it is still in the queue."""
        if message in self.queue.messages:
            self.queue.messages.remove(message)

    def tasks(self) -> list[Task]:
        """Return the next delivery, and the concurrent edit if it is still to come."""
        tasks = []
        if self.queue.messages:
            message = min(self.queue.messages, key=lambda one: one.visible_at)
            deliver = partial(self._deliver, message)
            tasks.append(Task("deliver", message.visible_at, deliver))
        if not self.edited and self.scenario.edit is not None:
            tasks.append(Task("edit", self.schedule.now, self._edit, optional=True))
        return tasks

    def next_in_flight(self, until: datetime) -> InFlightRequest | None:
        """Remove and return the request that arrives next, if one arrives by then."""
        due = [request for request in self.interceptor.in_flight if request.at <= until]
        if not due:
            return None
        first = min(due, key=lambda request: request.at)
        self.interceptor.in_flight.remove(first)
        self.interceptor.mutations += 1
        return first

    def next_phase(self) -> bool:
        """Replay the message: first immediately, then as late as a replay may arrive."""
        if self.interceptor.in_flight:
            self.schedule.advance_to(max(request.at for request in self.interceptor.in_flight))
            return True
        self.phase += 1
        if self.phase == 1:
            self.schedule.log("no work is left; the message is replayed")
            self.send(encode_message(self.scenario.message))
        elif self.phase == 2:  # noqa: PLR2004  # the second phase
            self.expire()
            self.interceptor.mutations += 1
            self.send(encode_message(self.scenario.message))
        else:
            return False
        return True

    def new_process(
        self, kind: str, perform: Callable[[], None], context: object = None
    ) -> SimulatedProcess:
        """Create a process that starts now with this context."""
        process = self.schedule.new_process(kind, perform)
        process.history = self.digest((kind, context, self.schedule.now))
        process.latest_call_at = self.schedule.now + FUNCTION_TIMEOUT
        return process

    def full_state(self) -> object:
        """Return everything that determines how a schedule continues."""
        schedule = self.schedule
        processes = (schedule.current, *schedule.waiting, None, *schedule.asleep)
        return (
            schedule.now,
            self.phase,
            self.edited,
            self.bodies,
            self._shared_digest(),
            [(one.body, one.visible_at, one.receive_count) for one in self.queue.messages],
            [(one.at, one.request_digest) for one in self.interceptor.in_flight],
            [one and (one.history, one.in_flight_until, one.latest_call_at) for one in processes],
        )

    def _shared_digest(self) -> int:
        # Few calls change the shared state, so it is digested only after those.
        if self._digested_at_mutation != self.interceptor.mutations:
            self._digested_at_mutation = self.interceptor.mutations
            dynamo, sandbox = self.aws.dynamodb, self.sandbox
            hits = [one["hits"] for one in sandbox.faults.to_dicts()]
            requested = bool(sandbox.ledger.requests)
            self._last_shared_digest = self.digest(
                (
                    dynamo.tables,
                    dynamo.undone,  # what a stale index shows
                    self.providers,
                    (hits, requested),
                    self.shared_state(),
                )
            )
        return self._last_shared_digest

    @cached_property
    def _request_timeout(self) -> timedelta:
        policies = self.scenario.contract.policies.values()
        return max(policy.profile.request_timeout for policy in policies)

    def _deliver(self, message: SqsMessage) -> SimulatedProcess:
        message.receive_count += 1
        message.visible_at = self.schedule.now + self.queue.visibility_timeout
        if message.receive_count > MAX_RECEIVE_COUNT:
            return self.new_process("d", lambda: self.dead_letter(message), message.body)
        deadline = self.schedule.now + FUNCTION_TIMEOUT
        context = (message.body, message.receive_count, deadline)
        worker = self.new_process("w", lambda: self.process(message, deadline), context)
        # The last time at which it may still call its provider.
        calls_take = self._request_timeout + COMMIT_BUDGET
        worker.latest_call_at = deadline - calls_take
        return worker

    def _edit(self) -> SimulatedProcess:
        self.edited = True

        def edit() -> None:
            self.interceptor.mutations += 1
            if self.scenario.edit is not None:
                for message in self.scenario.edit(self.rows):
                    self.send(encode_message(message))

        return self.new_process("e", edit)


class _SimulatedSandbox(InProcessSandbox):
    """Models whose late requests arrive at their time, whatever happens then."""

    interceptor: Interceptor

    def send_late(self, at: datetime, request: SandboxRequest) -> None:
        sent = (request.method, request.path, request.body)
        self.interceptor.send_late(at, sent, lambda: self.perform(request))
