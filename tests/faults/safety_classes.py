"""The smallest contract of each safety class, and an outside that counts what really happened."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from oncely.contract import (
    AnyContract,
    Contract,
    Description,
    EffectCall,
    Message,
    PrecheckResult,
    Proceed,
    Resources,
)
from oncely.domain.effect_outcomes import (
    Anomalous,
    EffectOutcome,
    LookupUnsupported,
    NotFound,
    Succeeded,
)
from oncely.domain.keys import JobKey, job_key
from oncely.domain.profiles import ProviderProfile, RetryPolicy, RetrySafety
from oncely.ports import Clock
from oncely.provider import Provider, ProviderAccess, ProviderSettings

TIMEOUT: Final = timedelta(seconds=10)
LAG: Final = timedelta(seconds=45)
SHORT_KEY_TTL: Final = timedelta(minutes=30)
SHORT_LAG: Final = timedelta(minutes=10)
MESSAGE: Final = {"job": "test.effect", "v": 1, "name": "seven"}


@dataclass
class EffectLog:
    """Does what it is asked; `done` is the truth that is compared with."""

    clock: Clock
    key_ttl: timedelta | None = None  # for how long it knows a key again
    lag: timedelta = timedelta(0)  # how late its look-up shows what was done
    effects: list[tuple[datetime, str]] = field(default_factory=list)
    keys: dict[str, datetime] = field(default_factory=dict)

    def do(self, name: str, key: str) -> EffectOutcome:
        now = self.clock.now()
        first = self.keys.setdefault(key, now)
        if self.key_ttl is not None and first != now and now - first < self.key_ttl:
            return self._found(name)
        self.keys[key] = now
        self.effects.append((now, name))
        return self._found(name)

    def find(self, name: str) -> EffectOutcome:
        seen = [
            one for at, one in self.effects if one == name and at + self.lag <= self.clock.now()
        ]
        if not seen:
            return NotFound(f"there is no {name}")
        return (
            self._found(name) if len(seen) == 1 else Anomalous(f"there are {len(seen)} of {name}")
        )

    def _found(self, name: str) -> Succeeded:
        return Succeeded(f"{name} is done", f"ref_{name}", {"name": name})


class EffectMessage(Message):
    job: Literal["test.effect"]
    v: Literal[1]
    name: str


class Effect(Contract[EffectMessage, str]):
    job_type = "test.effect"
    message = EffectMessage
    description = Description(
        effect="an effect.", business_rows="none.", success="it is there.", failure="none."
    )
    supports_lookup = False

    @classmethod
    def key(cls, message: EffectMessage) -> JobKey:
        return job_key(cls.job_type, message.name)

    def outside(self) -> Any:  # noqa: ANN401  # the explorer's fake
        return self.dependencies.provider(self.resources.providers[0])

    def precheck(self, message: EffectMessage) -> PrecheckResult[str]:
        return Proceed(facts=message.name, values={"name": message.name})

    def execute(self, call: EffectCall[str]) -> EffectOutcome:
        answer: EffectOutcome = self.outside().do(call.facts, call.idempotency_key("do"))
        return answer

    def lookup(self, call: EffectCall[str]) -> EffectOutcome:
        if not self.supports_lookup:
            return LookupUnsupported()
        answer: EffectOutcome = self.outside().find(call.facts)
        return answer


def contract_for_safety(
    safety: RetrySafety, *, window: timedelta | None = None, lag: timedelta | None = None
) -> type[AnyContract]:
    class Outside(Provider[Any, ProviderSettings]):
        name = "outside"
        has_api_key = False
        profile = ProviderProfile(
            name="Outside",
            request_timeout=TIMEOUT,
            max_calls=1,
            key_ttl=window,
            key_ttl_margin=timedelta(minutes=5),
            lookup_lag=lag,
        )

        def connect(self, access: ProviderAccess[ProviderSettings]) -> Any:  # noqa: ANN401  # never called
            raise NotImplementedError

    class Classed(Effect):
        supports_lookup = lag is not None
        policy = RetryPolicy(safety=safety, profile=Outside.profile)
        resources = Resources(queue="effects", providers=(Outside(),))

    return Classed
