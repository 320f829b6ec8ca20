"""The smallest contract of each safety class, with a provider that counts its effects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.contracts.job import Job
from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    EffectOutcome,
    LookupOutcome,
    NotFound,
    Succeeded,
)
from oncely.core.job_type import Call
from oncely.core.profiles import ProviderProfile, RetryPolicy, RetrySafety
from oncely.core.schedule import Clock
from oncely.plugins.provider import Provider, ProviderAccess, ProviderSettings
from oncely.testing import FinalState, ProviderSpec, Scenario
from oncely.testing.sandbox import SandboxOptions
from oncely.testing.scenario import RestoreMode

TIMEOUT: Final = timedelta(seconds=10)
LAG: Final = timedelta(seconds=45)
SHORT_KEY_TTL: Final = timedelta(minutes=30)
SHORT_LAG: Final = timedelta(minutes=10)
MESSAGE: Final = {"job": "test.effect", "v": 1, "name": "seven"}


def with_short_window(policy: RetryPolicy) -> RetryPolicy:
    """The policy of a job whose provider forgets a key before the longest delay ends."""
    margin = timedelta(minutes=5)
    profile = replace(policy.profile, key_ttl=SHORT_KEY_TTL, key_ttl_margin=margin)
    return replace(policy, profile=profile)


@dataclass
class EffectLog:
    """Performs each request; `done` is its ledger."""

    clock: Clock
    key_ttl: timedelta | None = None  # how long it remembers a key
    lag: timedelta = timedelta(0)  # the lag of its lookup
    first_late_by: timedelta | None = None  # how late the first request arrives
    moves: bool = False  # its API key is one of another account after the first request
    account: str = "first"
    in_flight: list[tuple[datetime, str, str]] = field(default_factory=list)
    effects: list[tuple[datetime, str]] = field(default_factory=list)
    keys: dict[str, datetime] = field(default_factory=dict)

    def do(self, name: str, key: str) -> EffectOutcome:
        now, key = self.clock.now(), f"{self.account}:{key}"
        self.account = "second" if self.moves else self.account
        self.deliver(now)
        if self.first_late_by is not None:
            self.in_flight.append((now + self.first_late_by, name, key))
            self.first_late_by = None
            return Ambiguous("timeout")
        return self._perform(now, name, key)

    def deliver(self, now: datetime | None = None) -> None:
        """Perform the requests that have arrived by now, or all of them."""
        for one in [one for one in self.in_flight if now is None or one[0] <= now]:
            self.in_flight.remove(one)
            self._perform(*one)

    def _perform(self, now: datetime, name: str, key: str) -> EffectOutcome:
        first = self.keys.get(key)
        if self.key_ttl is not None and first is not None and now - first < self.key_ttl:
            return self._found(name)
        self.keys[key] = now
        self.effects.append((now, name))
        return self._found(name)

    def find(self, name: str) -> LookupOutcome:
        self.deliver(self.clock.now())
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


class Effect(Job):
    """An effect."""

    job_type = "test.effect"
    key = "name"
    name: str

    def outside(self) -> Any:  # noqa: ANN401  # the explorer's fake
        return self.tools.provider(self.all_providers()[0])

    def key_scope(self) -> str:
        return str(getattr(self.outside(), "account", ""))


def contract_for_safety(
    safety: RetrySafety, *, window: timedelta | None = None, lag: timedelta | None = None
) -> type[Effect]:
    safety_value: Any = safety.value

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
        provider = Outside()
        queue = "effects"
        safety = safety_value

        def execute(self, call: Call) -> EffectOutcome:
            answer: EffectOutcome = self.outside().do(self.name, call.idempotency_key("do"))
            return answer

        if lag is not None:

            def lookup(self, call: Call) -> LookupOutcome:
                answer: LookupOutcome = self.outside().find(self.name)
                return answer

    return Classed


def safety_scenario(
    name: str,
    safety: RetrySafety,
    *,
    window: timedelta | None = None,
    key_ttl: timedelta | None = None,
    lag: timedelta | None = None,
    first_late_by: timedelta | None = None,
    moves: bool = False,
    fixed_prefix: str = "",
) -> Scenario:
    return effect_scenario(
        contract_for_safety(safety, window=window, lag=lag),
        lambda clock: EffectLog(clock, key_ttl, lag or timedelta(0), first_late_by, moves),
        name=name,
        fixed_prefix=fixed_prefix,
    )


def effect_scenario(
    job: type[Effect],
    new_log: Callable[[Clock], EffectLog],
    *,
    name: str,
    is_natural: bool | None = None,  # by default, as the job says
    fixed_prefix: str = "",
) -> Scenario:
    plugin = job.all_providers()[0].name
    natural = job.policy.safety is RetrySafety.NATURAL if is_natural is None else is_natural

    def count_effects(ended: FinalState) -> int:
        outside: EffectLog = ended.providers[plugin]
        outside.deliver()
        effects = [one for _, one in outside.effects]
        return len(set(effects) if natural else effects)

    def providers(options: SandboxOptions) -> Mapping[str, ProviderSpec]:
        log = new_log(options)
        return {plugin: ProviderSpec(target=log, effect_calls={"do"}, lookup_calls={"find"})}

    return Scenario(
        name=f"test.effect/{name}",
        contracts=(job,),
        message=MESSAGE,
        providers=providers,
        count_effects=count_effects,
        fixed_prefix=fixed_prefix,
    )


DAY: Final = timedelta(hours=24)
_RESTORED_AND_CLAIMED_AGAIN: Final = ("restore1", "proofs", "sweep", "deliver")
SAFETY_SCENARIOS: Final = (
    safety_scenario("natural", RetrySafety.NATURAL),
    safety_scenario("keyed", RetrySafety.KEYED, window=DAY, key_ttl=DAY),
    # A send is open, and its key expires before the longest delay ends.
    safety_scenario(
        "keyed-brief-window",
        RetrySafety.KEYED,
        window=SHORT_LAG,
        key_ttl=SHORT_LAG,
        fixed_prefix="w1:outside.do!lost",
    ),
    # The same, and no later request leaves this machine until the key has expired.
    safety_scenario(
        "keyed-refused",
        RetrySafety.KEYED,
        window=SHORT_LAG,
        key_ttl=SHORT_LAG,
        fixed_prefix=" ".join(
            ("w1:outside.do!lost", *(f"w{number}:outside.do!refused" for number in range(3, 7)))
        ),
    ),
    # A send is open when the API key becomes one of another account, which knows no earlier key.
    safety_scenario(
        "keyed-moved",
        RetrySafety.KEYED,
        window=DAY,
        key_ttl=DAY,
        moves=True,
        fixed_prefix="w1:outside.do!lost",
    ),
    # The first request arrives after the lookup that finds nothing. Nothing but the safety class is
    # declared, as in docs/add-a-job.md.
    safety_scenario(
        "keyed-late",
        RetrySafety.KEYED,
        window=DAY,
        key_ttl=DAY,
        lag=LAG,
        first_late_by=timedelta(minutes=10),
    ),
    safety_scenario("lookup", RetrySafety.LOOKUP, lag=timedelta(0)),
    # A duplicate and then a sweep arrive while the request of the owner is not answered.
    replace(
        safety_scenario(
            "lookup-owned",
            RetrySafety.LOOKUP,
            lag=timedelta(0),
            fixed_prefix="w1:outside.do>deliver w2:end>sweep",
        ),
        sweeps_at=(timedelta(0),),
    ),
    # A worker sent nothing and is about to release its claim. It wakes after a restore, when the
    # job is another worker's: the row has the same version as before, and another owner.
    replace(
        safety_scenario(
            "restored-zombie",
            RetrySafety.LOOKUP,
            lag=timedelta(0),
            fixed_prefix=" ".join(
                (
                    "w1:outside.do!refused",
                    *(f"w1:jobs.update_item#2>{one}" for one in _RESTORED_AND_CLAIMED_AGAIN),
                    "w2:outside.do>w1",
                )
            ),
        ),
        restore=RestoreMode.JOBS_LAGGING,
        sweeps_at=(timedelta(minutes=40),),  # the restored table is open by then
        duplicate_messages=1,
    ),
    safety_scenario("lookup-lagging", RetrySafety.LOOKUP, lag=LAG),
    safety_scenario("at-most-once", RetrySafety.AT_MOST_ONCE),
)
