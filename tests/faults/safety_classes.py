"""The smallest contract of each safety class, and an outside that counts what really happened."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from oncely.contract import AnyContract, Call, Contract, Message, Needs, Proceed, Standing, Words
from oncely.domain.answers import Absent, Answer, CannotAsk, Done, Odd
from oncely.domain.keys import JobKey, job_key
from oncely.domain.profiles import Profile, Safety, Terms
from oncely.ports import Clock

TIMEOUT: Final = timedelta(seconds=10)
LAG: Final = timedelta(seconds=45)
SHORT: Final = timedelta(minutes=30)
BRIEF: Final = timedelta(minutes=10)
MESSAGE: Final = {"job": "test.effect", "v": 1, "name": "seven"}


@dataclass
class Outside:
    """Does what it is asked; `done` is the truth that is compared with."""

    clock: Clock
    remembers: timedelta | None = None  # for how long it knows a key again
    lag: timedelta = timedelta(0)  # how late its look-up shows what was done
    done: list[tuple[datetime, str]] = field(default_factory=list)
    keys: dict[str, datetime] = field(default_factory=dict)

    def do(self, name: str, key: str) -> Answer:
        now = self.clock.now()
        first = self.keys.setdefault(key, now)
        if self.remembers is not None and first != now and now - first < self.remembers:
            return self._found(name)
        self.keys[key] = now
        self.done.append((now, name))
        return self._found(name)

    def find(self, name: str) -> Answer:
        seen = [one for at, one in self.done if one == name and at + self.lag <= self.clock.now()]
        if not seen:
            return Absent(f"there is no {name}")
        return self._found(name) if len(seen) == 1 else Odd(f"there are {len(seen)} of {name}")

    def _found(self, name: str) -> Done:
        return Done(f"{name} is done", f"ref_{name}", {"name": name})


class EffectMessage(Message):
    job: Literal["test.effect"]
    v: Literal[1]
    name: str


class Effect(Contract[EffectMessage, str]):
    job_type = "test.effect"
    message = EffectMessage
    needs = Needs(queue="effects")
    words = Words(outside="an effect.", rows="none.", success="it is there.", failure="none.")
    can_be_asked = False

    @classmethod
    def key(cls, message: EffectMessage) -> JobKey:
        return job_key(cls.job_type, message.name)

    def outside(self) -> Any:  # noqa: ANN401  # the explorer puts one here
        raise NotImplementedError

    def check(self, message: EffectMessage) -> Standing[str]:
        return Proceed(facts=message.name, values={"name": message.name})

    def act(self, call: Call[str]) -> Answer:
        answer: Answer = self.outside().do(call.facts, call.key("do"))
        return answer

    def ask(self, call: Call[str]) -> Answer:
        if not self.can_be_asked:
            return CannotAsk()
        answer: Answer = self.outside().find(call.facts)
        return answer


def contract_of(
    safety: Safety, *, window: timedelta | None = None, lag: timedelta | None = None
) -> type[AnyContract]:
    """The contract whose provider offers exactly this."""

    class Classed(Effect):
        can_be_asked = lag is not None
        terms = Terms(
            safety=safety,
            profile=Profile(
                name="Outside",
                request_timeout=TIMEOUT,
                calls=1,
                key_window=window,
                key_margin=timedelta(minutes=5),
                lookup_lag=lag,
            ),
        )

    return Classed
