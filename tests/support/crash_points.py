"""Workers that die: at a chosen call to a port, before it or after it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.calls import AwsCall

T = TypeVar("T")


class SimulatedCrashError(BaseException):
    """A SIGKILL. It is not an Exception, so that no handler catches it."""


@dataclass
class CrashPlan:
    crash_at: int | str  # the number of the call, or the first with this name
    crash_after: bool
    calls: list[str] = field(default_factory=list)
    has_crashed: bool = False

    def intercept(self, name: str, perform: Callable[[], object]) -> object:
        self.calls.append(name)
        its_time = self.crash_at in (len(self.calls), name) and not self.has_crashed
        if its_time and not self.crash_after:
            self._crash(name)
        answer = perform()
        if its_time:
            self._crash(name)
        return answer

    def _crash(self, name: str) -> None:
        self.has_crashed = True
        raise SimulatedCrashError(name)


class CrashingPort:
    def __init__(self, port: object, plan: CrashPlan) -> None:
        self._port = port
        self._plan = plan

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # it stands for any port
        found = getattr(self._port, name)
        if not callable(found):
            return found
        return lambda *args, **named: self._plan.intercept(name, lambda: found(*args, **named))


def interrupt_after(
    aws: MemoryAws, operation: str, action: Callable[[], object], *, table: str
) -> None:
    """Run something else after each such call of a table, as for a slow worker."""

    def intercept(call: AwsCall, perform: Callable[[], T]) -> T:
        response = perform()
        if call.operation == operation and call.request.get("TableName") == table:
            action()
        return response

    aws.intercept = intercept


class InterruptingPort:
    """A port that runs something else during one of its calls, as for a slow worker."""

    def __init__(self, port: object, name: str, action: Callable[[], object]) -> None:
        self._port = port
        self._name = name
        self._action = action

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # it stands for any port
        found = getattr(self._port, name)
        if name != self._name:
            return found

        def interrupted(*args: object, **named: object) -> object:
            answer = found(*args, **named)
            self._action()
            return answer

        return interrupted
