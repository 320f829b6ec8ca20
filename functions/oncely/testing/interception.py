"""The calls that a schedule intercepts: one may fail, lose its response, or never be reached."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from oncely.core.table_guard import IDENTITY_KEY
from oncely.testing.digest import Digest
from oncely.testing.in_process import CLOSES, InProcessSandbox, refuse_connection
from oncely.testing.memory_aws.calls import AwsCall, client_error, no_connection, no_response
from oncely.testing.memory_aws.dynamodb import MemoryDynamo
from oncely.testing.sandbox.http_messages import SandboxRequest, encode_response
from oncely.testing.schedule import START, InFlightRequest, ProcessKilledError, Scheduler
from oncely.testing.script import DIE

_T = TypeVar("_T")

FAIL: Final = "!fail"  # no response, and the call did not happen; the error does not show that
LOST: Final = "!lost"  # no response, and the call happened
LATE: Final = "!late"  # no response, and the effect happens only after our timeout
REFUSED: Final = "!refused"  # the connection was refused, so nothing was sent
THROTTLED: Final = "!throttled"  # the service answers that it did nothing
CONFLICT: Final = "!conflict"  # DynamoDB cancels a transaction: another one holds an item
STALE: Final = "!stale"  # the index does not show the latest write yet

# Dying before a read equals dying before the next write: nothing changes in between.
READ_FAULTS: Final = (FAIL,)
WRITE_FAULTS: Final = (DIE, FAIL, LOST)
EFFECT_FAULTS: Final = (DIE, FAIL, LOST, LATE, REFUSED, THROTTLED)
_THROTTLED_STATUS: Final = 429


@dataclass
class Interceptor:
    """The connection between calls and the schedule."""

    schedule: Scheduler
    digest: Digest
    on_aws_write: Callable[[AwsCall], None]  # after each call that may have changed something
    silent_tables: frozenset[str] = frozenset()
    writable_tables: frozenset[str] | None = None  # as the role of a worker allows; None: all
    mutations: int = 0  # calls so far that may have changed the shared state
    outage_until: datetime = START  # until then, every call to our tables fails
    in_flight: list[InFlightRequest] = field(default_factory=list)
    # Services of AWS that are providers, with the names of their plug-ins.
    effect_services: dict[str, str] = field(default_factory=dict)
    _is_silent: bool = False

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Let calls pass: what sets a scenario up, or cannot be interrupted."""
        before, self._is_silent = self._is_silent, True
        try:
            yield
        finally:
            self._is_silent = before

    def call(
        self,
        name: str,
        faults: Sequence[str],
        perform: Callable[[], _T],
        fail: Callable[[str], _T],
        *,
        in_flight: timedelta | None = None,
        is_down: bool = False,
    ) -> _T:
        """Perform a call, or the fault injected into it, and record the result."""
        if self._is_silent:
            return perform()
        fault = self.schedule.intercept(name, faults, in_flight=in_flight)
        self._check_killed()
        if is_down and self.schedule.now < self.outage_until:
            fault = FAIL
        self.mutations += faults is not READ_FAULTS
        try:
            if fault is None:
                result = perform()
            else:
                if fault == LOST:
                    # An error response is lost as well.
                    with suppress(Exception):
                        perform()
                result = fail(fault)
        except Exception as error:
            self.record_result(name, error)
            raise
        self.record_result(name, result)
        return result

    def aws_call(
        self,
        call: AwsCall,
        perform: Callable[[], _T],
        dynamo: MemoryDynamo,
        timeout: timedelta,
    ) -> _T:
        """Intercept a call to AWS in memory."""
        if call.service in self.effect_services:
            return self._effect_call(call, perform, timeout)
        table = next(iter(_tables(call)), None)
        name = f"{table or call.service}.{call.operation}"
        if table in self.silent_tables or _is_guard(call):
            return self._performed(call, perform)
        if self._repeats_query(call, name):
            result = perform()
            self.record_result(name, result)
            return result

        def fail(fault: str) -> _T:
            if fault == STALE:
                with dynamo.stale():
                    return perform()
            if fault == THROTTLED:
                raise client_error("ProvisionedThroughputExceededException", call.operation)
            if fault == CONFLICT:
                reasons = [{"Code": "TransactionConflict"} for _ in _transacted(call)]
                code = "TransactionCanceledException"
                raise client_error(code, call.operation, CancellationReasons=reasons)
            raise no_response(call)

        return self.call(
            name,
            _aws_faults(call),
            lambda: self._performed(call, perform),
            fail,
            is_down=call.service == "dynamodb",
        )

    def _repeats_query(self, call: AwsCall, name: str) -> bool:
        """Whether a sweep queries the next partition: to intervene at the first is enough."""
        process = self.schedule.current
        if process is None:
            return False
        is_repeated = call.operation == "query" and process.latest_call == name
        process.latest_call = name
        return is_repeated and self.schedule.now >= self.outage_until

    def _effect_call(self, call: AwsCall, perform: Callable[[], _T], timeout: timedelta) -> _T:
        """Intercept a call to a provider that is a service of AWS."""
        begun = self.begun()

        def fail(fault: str) -> _T:
            if fault == REFUSED:
                raise no_connection(call)
            if fault == THROTTLED:
                raise client_error("TooManyRequestsException", call.operation)
            if fault == LATE:
                self.send_late(begun + timeout, repr(call.request), perform)
            raise no_response(call)

        name = f"{self.effect_services[call.service]}.{call.operation}"
        return self.call(name, EFFECT_FAULTS, perform, fail, in_flight=timeout)

    def begun(self) -> datetime:
        """Return when the current process began its request, by its own clock."""
        process = self.schedule.current
        return self.schedule.now if process is None else process.clock_read_at

    def send_late(self, at: datetime, request: object, perform: Callable[[], object]) -> None:
        """Let a request arrive at a later time."""
        self.in_flight.append(InFlightRequest(at, self.digest(request), perform))

    def _performed(self, call: AwsCall, perform: Callable[[], _T]) -> _T:
        self._check_access(call)
        result = perform()
        if call.writes:
            self.on_aws_write(call)
        return result

    def _check_access(self, call: AwsCall) -> None:
        """Refuse what the role of a worker does not allow."""
        if call.writes and self.writable_tables is not None:
            for table in _tables(call):
                if table not in self.writable_tables:
                    raise client_error("AccessDeniedException", call.operation)

    def provider_call(
        self, name: str, request: SandboxRequest, sandbox: InProcessSandbox, timeout: timedelta
    ) -> bytes | OSError:
        """Intercept a request to the model of a provider."""
        model = sandbox.providers[name]
        begun = self.begun()

        def fail(fault: str) -> bytes | OSError:
            if fault == REFUSED:
                refuse_connection()
            if fault == THROTTLED:
                refusal = model.error_response(request, status=_THROTTLED_STATUS)
                return encode_response(refusal.with_headers(**CLOSES))
            if fault == LATE:
                sent = (request.method, request.path, request.body)
                self.send_late(begun + timeout, sent, lambda: sandbox.perform(request))
            return TimeoutError("no response")

        faults = READ_FAULTS if model.is_read(request) else EFFECT_FAULTS
        call = f"{name}.{model.request_name(request)}"
        return self.call(call, faults, lambda: sandbox.serve(request), fail, in_flight=timeout)

    def _check_killed(self) -> None:
        process = self.schedule.current
        if process is not None and process.killed_at and self.schedule.now > process.killed_at:
            raise ProcessKilledError("timeout")

    def record_result(self, name: str, result: object) -> None:
        """Add a result to the history of the current process."""
        process = self.schedule.current
        if process is not None:
            if name != "clock":
                self.schedule.log(f"  {process.name}:{name} →", result)
            process.history = hash((process.history, name, self.digest(result)))

    def now(self) -> datetime:
        """Read the clock. A process that is delayed before that sees a later time."""
        if not self._is_silent:
            self.schedule.intercept("clock")
            if self.schedule.current is not None:
                self.schedule.current.clock_read_at = self.schedule.now
            self.record_result("clock", self.schedule.now)
        return self.schedule.now


def _transacted(call: AwsCall) -> Sequence[Any]:
    items: Sequence[Any] = call.request.get("TransactItems", ())
    return items


def _tables(call: AwsCall) -> list[str]:
    if "TableName" in call.request:
        return [call.request["TableName"]]
    return [request["TableName"] for item in _transacted(call) for request in item.values()]


def _is_guard(call: AwsCall) -> bool:
    """Whether the table guard reads. It does so once a minute, before anything else."""
    if call.service != "dynamodb":
        return False
    key = call.request.get("Key", {}).get("job_key")
    return call.operation.startswith("describe_") or key == {"S": IDENTITY_KEY}


def _aws_faults(call: AwsCall) -> Sequence[str]:
    if not call.writes:
        return (FAIL, STALE) if "IndexName" in call.request else READ_FAULTS
    if call.service != "dynamodb":
        return WRITE_FAULTS
    more = (CONFLICT,) if _transacted(call) else (THROTTLED,)
    return (*WRITE_FAULTS, *more)
