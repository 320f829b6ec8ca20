"""A provider that the schedule intercepts: a call may be lost, arrive late, or never be sent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from oncely.domain.effect_outcomes import NotSent
from oncely.testing.interception import FAIL, LOST, READ_FAULTS, Interceptor
from oncely.testing.script import DIE
from oncely.testing.tasks import InFlightRequest

LATE: Final = "!late"  # the effect happens only after our timeout
REFUSED: Final = "!refused"  # the connection was refused, so nothing was sent

EFFECT_FAULTS: Final = (DIE, FAIL, LOST, LATE, REFUSED)


@dataclass(frozen=True)
class InterceptedProvider:
    """A provider whose effect calls and lookup calls are intercepted."""

    interceptor: Interceptor
    name: str
    target: Any
    effect_calls: Mapping[str, object]  # each with the outcome or exception of a lost response
    lookup_calls: Mapping[str, object]
    timeout: timedelta
    add_in_flight: Callable[[InFlightRequest], None]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # of any provider
        attribute = getattr(self.target, name)
        self.interceptor.mutations += 1
        if name in self.effect_calls:
            return lambda *args, **named: self._intercept_effect(
                name, lambda: attribute(*args, **named), (name, args, named)
            )
        if name in self.lookup_calls:
            return lambda *args, **named: self._intercept_lookup(
                name, lambda: attribute(*args, **named)
            )
        return attribute

    def _intercept_effect(self, name: str, perform: Callable[[], Any], request: object) -> Any:  # noqa: ANN401  # its outcome
        schedule, point = self.interceptor.schedule, f"{self.name}.{name}"
        begun = schedule.current.clock_read_at if schedule.current else schedule.now
        fault = schedule.intercept(point, EFFECT_FAULTS, in_flight=self.timeout)
        self.interceptor.mutations += 1
        try:
            if fault == REFUSED:
                outcome: Any = NotSent("connection refused")
            elif fault in {FAIL, LATE, LOST}:
                if fault == LATE:
                    digest = self.interceptor.digest(request)
                    self.add_in_flight(InFlightRequest(begun + self.timeout, digest, perform))
                elif fault == LOST:
                    perform()
                outcome = _failure(self.effect_calls[name])()
            else:
                outcome = perform()
        except Exception as error:
            self.interceptor.record_result(point, error)
            raise
        self.interceptor.record_result(point, outcome)
        return outcome

    def _intercept_lookup(self, name: str, perform: Callable[[], Any]) -> Any:  # noqa: ANN401  # its outcome
        fail = _failure(self.lookup_calls[name])
        outcome = self.interceptor.call(
            f"{self.name}.{name}", READ_FAULTS, perform, fail, in_flight=self.timeout
        )
        self.interceptor.mutations += 1  # a provider may count its lookups
        return outcome


def _failure(outcome: object) -> Callable[[], Any]:
    def fail() -> Any:  # noqa: ANN401  # the provider's outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return fail
