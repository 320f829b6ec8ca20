"""The smallest job of each safety class, at an API whose model counts its effects."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from oncely.contracts.job import Job
from oncely.core.effect_outcomes import EffectOutcome, LookupOutcome, Succeeded
from oncely.core.job_type import Call
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.plugins.http_provider import HttpProvider
from oncely.testing.explore import build_scenario
from oncely.testing.http_model import HttpModel, http_model
from oncely.testing.sandbox.http_messages import SandboxHandler, SandboxRequest, SandboxResponse
from oncely.testing.scenario import RestoreMode, Scenario

TIMEOUT: Final = timedelta(seconds=10)
LAG: Final = timedelta(seconds=45)
# Later than its timeout, so the lookup that calls it absent cannot see it yet.
ARRIVES_AFTER: Final = 2 * TIMEOUT
SHORT_KEY_TTL: Final = timedelta(minutes=30)
SHORT_LAG: Final = timedelta(minutes=10)
MESSAGE: Final = {"job": "test.effect", "v": 1, "name": "seven"}


def with_short_window(policy: RetryPolicy) -> RetryPolicy:
    """The policy of a job whose provider forgets a key before the longest delay ends."""
    margin = timedelta(minutes=5)
    profile = replace(policy.profile, key_ttl=SHORT_KEY_TTL, key_ttl_margin=margin)
    return replace(policy, profile=profile)


class EffectModel(HttpModel):
    requests: ClassVar = {
        "find": {"method": "GET", "path": "*"},
        "do": {"method": "*", "path": "*"},
    }
    first_late_by: ClassVar[timedelta | None] = None  # how late the first request arrives
    declines_repeats: ClassVar[bool] = False  # it declines each request after the first
    moves: ClassVar[bool] = False  # its API key is one of another account after the first request

    def __init__(self, *args: Any) -> None:  # noqa: ANN401  # as inherited
        super().__init__(*args)
        self.account, self.received = "first", 0
        self.in_flight: list[tuple[datetime, SandboxRequest]] = []

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        now = self.options.now()
        self.deliver(now)
        if request.path.endswith("/account"):
            return SandboxResponse(200, {"id": self.account})
        if request.method == "GET":
            return super().handle(request, wrap=wrap)
        self.received += 1
        if self.declines_repeats and self.received > 1:
            return self.error_response(request, status=422)
        if self.first_late_by is not None and self.received == 1:
            self.in_flight.append((now + self.first_late_by, request))
            return self.error_response(request, status=504)
        response = super().handle(request, wrap=wrap)
        if self.moves and self.account == "first":
            self.account = "second"
            self.keys.clear()  # the second account knows no key of the first
        return response

    def deliver(self, now: datetime | None = None) -> None:
        """Perform the requests that have arrived by now, or all of them."""
        for one in [one for one in self.in_flight if now is None or one[0] <= now]:
            self.in_flight.remove(one)
            self.arrival = one[0]
            super().handle(one[1], wrap=lambda perform: perform())
            self.arrival = None


class Effect(Job):
    """An effect."""

    job_type = "test.effect"
    key = "name"

    name: str


def effect_type(
    safety: RetrySafety,
    *,
    window: timedelta | None = None,
    lag: timedelta | None = None,
    moves: bool = False,
    finds: bool = True,  # otherwise its lookup asks at a wrong path, which is always empty
    must_prove: bool = True,
) -> type[Effect]:
    safety_value: Any = safety.value
    api = HttpProvider(
        "outside",
        base_url="https://outside.example.com",
        auth=None,
        timeout=TIMEOUT,
        key_ttl=window,
        lookup_lag=lag,
        absent_body={"error": "none"},
    )
    api.must_prove_lookups = must_prove

    class Classed(Effect):
        provider = api
        queue = "effects"
        safety = safety_value

        def execute(self, call: Call) -> EffectOutcome:
            return call.post("/effects", json={"name": self.name})

        if lag is not None:

            def lookup(self, call: Call) -> LookupOutcome:
                return call.get(f"/effects/{self.name}" if finds else "/effects/latest")

        if moves:

            def key_scope(self) -> str:
                account = self.tools.provider(api).look_up("/account")
                return str(account.ref) if isinstance(account, Succeeded) else ""

    return Classed


def safety_scenario(
    name: str,
    safety: RetrySafety,
    *,
    window: timedelta | None = None,
    key_ttl: timedelta | None = None,  # how long the API really remembers a key
    lag: timedelta | None = None,
    moves: bool = False,
    finds: bool = True,
    fixed_prefix: str = "",
    job: type[Effect] | None = None,
    is_natural: bool | None = None,  # by default, as the job says
    model: type[EffectModel] = EffectModel,
    **behavior: Any,  # noqa: ANN401  # of the model
) -> Scenario:
    job = job or effect_type(safety, window=window, lag=lag, moves=moves, finds=finds)
    (api,) = job.all_providers()
    assert isinstance(api, HttpProvider)
    derived = http_model(api, [job])
    behavior |= {"moves": moves, "provider": api, "forms": derived.forms}
    kind = type("Effects", (model,), {**behavior, "path_prefix": derived.path_prefix})

    def count(made: EffectModel) -> int:
        made.deliver()
        done = len(made.ledger.done)
        natural = safety is RetrySafety.NATURAL if is_natural is None else is_natural
        return min(done, 1) if natural else done

    scenario = build_scenario(
        job,
        name=f"test.effect/{name}",
        message=MESSAGE,
        model=kind,
        count_effects=count,
        fixed_prefix=fixed_prefix,
    )
    if key_ttl is None:
        return scenario
    return replace(
        scenario,
        providers=lambda options: {api.name: kind(replace(options, key_window=key_ttl))},
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
    # The lookup sees the first request too late, and the provider declines the re-send, because it
    # has the effect already.
    safety_scenario(
        "keyed-declined",
        RetrySafety.KEYED,
        window=DAY,
        key_ttl=DAY,
        lag=LAG,
        first_late_by=ARRIVES_AFTER,
        declines_repeats=True,
    ),
    safety_scenario(
        "lookup-declined",
        RetrySafety.LOOKUP,
        lag=LAG,
        first_late_by=ARRIVES_AFTER,
        declines_repeats=True,
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
    # job is another worker's: the row has the same version as before, and another owner. An absence
    # is believed here, as that of a vendor's client is: after a restore, no lookup is proved.
    replace(
        safety_scenario(
            "restored-zombie",
            RetrySafety.LOOKUP,
            job=effect_type(RetrySafety.LOOKUP, lag=timedelta(0), must_prove=False),
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
    # No lookup has found an effect in this deployment yet. The effect of the first job proves it.
    replace(
        safety_scenario("lookup-unproved", RetrySafety.LOOKUP, lag=LAG),
        lookups_proved=False,
    ),
    # The same, and none ever will: a response is lost, and the lookup asks at a wrong path.
    replace(
        safety_scenario(
            "lookup-wrong-path",
            RetrySafety.LOOKUP,
            lag=LAG,
            finds=False,
        ),
        lookups_proved=False,
    ),
    safety_scenario("at-most-once", RetrySafety.AT_MOST_ONCE),
)
