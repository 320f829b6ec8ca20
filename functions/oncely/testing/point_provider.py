"""A provider whose every call is a point: it may act unseen, late, or not at all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from oncely.domain.answers import NotSent
from oncely.testing.actors import Landing
from oncely.testing.points import FAIL, LOST, READ, Points
from oncely.testing.script import DIE

LATE: Final = "!late"  # it happens only after our timeout
REFUSED: Final = "!refused"  # the connection was refused: certainly not sent

ACT: Final = (DIE, FAIL, LOST, LATE, REFUSED)


@dataclass(frozen=True)
class PointProvider:
    """Any provider: the calls that act and those that ask are points, the others are its own."""

    points: Points
    name: str
    target: Any
    acts: Mapping[str, object]  # each with the answer, or the exception, of a lost reply
    asks: Mapping[str, object]
    timeout: timedelta
    lands_later: Callable[[Landing], None]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # it stands for any provider
        found = getattr(self.target, name)
        self.points.changes += 1
        if name in self.acts:
            return lambda *args, **named: self._act(
                name, lambda: found(*args, **named), (name, args, named)
            )
        if name in self.asks:
            return lambda *args, **named: self._ask(name, lambda: found(*args, **named))
        return found

    def _act(self, name: str, perform: Callable[[], Any], what: object) -> Any:  # noqa: ANN401  # its answer
        schedule, point = self.points.schedule, f"{self.name}.{name}"
        begun = schedule.current.last_look if schedule.current else schedule.now
        fault = schedule.point(point, ACT, in_flight=self.timeout)
        self.points.changes += 1
        try:
            if fault == REFUSED:
                answer: Any = NotSent("connection refused")
            elif fault in {FAIL, LATE, LOST}:
                if fault == LATE:
                    digest = self.points.digest(what)
                    self.lands_later(Landing(begun + self.timeout, digest, perform))
                elif fault == LOST:
                    perform()
                answer = _wrong(self.acts[name])()
            else:
                answer = perform()
        except Exception as error:
            self.points.seen(point, error)
            raise
        self.points.seen(point, answer)
        return answer

    def _ask(self, name: str, perform: Callable[[], Any]) -> Any:  # noqa: ANN401  # its answer
        wrong = _wrong(self.asks[name])
        # A provider may count its questions.
        answer = self.points.call(
            f"{self.name}.{name}", READ, perform, wrong, in_flight=self.timeout
        )
        self.points.changes += 1
        return answer


def _wrong(answer: object) -> Callable[[], Any]:
    def give() -> Any:  # noqa: ANN401  # the provider's own answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    return give
