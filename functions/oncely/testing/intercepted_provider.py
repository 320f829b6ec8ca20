"""A provider whose every call is a point: it may act unseen, late, or not at all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from oncely.domain.effect_outcomes import NotSent
from oncely.testing.interception import FAIL, LOST, READ_FAULTS, Interceptor
from oncely.testing.script import DIE
from oncely.testing.tasks import InFlightRequest

LATE: Final = "!late"  # it happens only after our timeout
REFUSED: Final = "!refused"  # the connection was refused: certainly not sent

EFFECT_FAULTS: Final = (DIE, FAIL, LOST, LATE, REFUSED)


@dataclass(frozen=True)
class InterceptedProvider:
    """Any provider: the calls that act and those that ask are points, the others are its own."""

    interceptor: Interceptor
    name: str
    target: Any
    effect_calls: Mapping[str, object]  # each with the answer, or the exception, of a lost reply
    lookup_calls: Mapping[str, object]
    timeout: timedelta
    add_in_flight: Callable[[InFlightRequest], None]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # it stands for any provider
        found = getattr(self.target, name)
        self.interceptor.mutations += 1
        if name in self.effect_calls:
            return lambda *args, **named: self._intercept_effect(
                name, lambda: found(*args, **named), (name, args, named)
            )
        if name in self.lookup_calls:
            return lambda *args, **named: self._intercept_lookup(
                name, lambda: found(*args, **named)
            )
        return found

    def _intercept_effect(self, name: str, perform: Callable[[], Any], what: object) -> Any:  # noqa: ANN401  # its answer
        schedule, point = self.interceptor.schedule, f"{self.name}.{name}"
        begun = schedule.current.clock_read_at if schedule.current else schedule.now
        fault = schedule.intercept(point, EFFECT_FAULTS, in_flight=self.timeout)
        self.interceptor.mutations += 1
        try:
            if fault == REFUSED:
                answer: Any = NotSent("connection refused")
            elif fault in {FAIL, LATE, LOST}:
                if fault == LATE:
                    digest = self.interceptor.digest(what)
                    self.add_in_flight(InFlightRequest(begun + self.timeout, digest, perform))
                elif fault == LOST:
                    perform()
                answer = _failure(self.effect_calls[name])()
            else:
                answer = perform()
        except Exception as error:
            self.interceptor.record_result(point, error)
            raise
        self.interceptor.record_result(point, answer)
        return answer

    def _intercept_lookup(self, name: str, perform: Callable[[], Any]) -> Any:  # noqa: ANN401  # its answer
        fail = _failure(self.lookup_calls[name])
        # A provider may count its questions.
        answer = self.interceptor.call(
            f"{self.name}.{name}", READ_FAULTS, perform, fail, in_flight=self.timeout
        )
        self.interceptor.mutations += 1
        return answer


def _failure(outcome: object) -> Callable[[], Any]:
    def give() -> Any:  # noqa: ANN401  # the provider's own answer
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return give
