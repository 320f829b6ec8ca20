"""The smallest job: it reads no row, writes none and saves no reference."""

from datetime import timedelta

from oncely.contracts.job import Job
from oncely.core.effect_outcomes import EffectOutcome, Succeeded
from oncely.core.job_type import Call
from oncely.core.keys import JobKey
from oncely.core.profiles import ProviderProfile


class Ping(Job):
    """A ping. What remains is the engine itself: its cost, and its claim as the only guard."""

    job_type = "test.ping"
    key = "number"
    queue = "pings"
    profile = ProviderProfile(name="Ping", request_timeout=timedelta(seconds=1), max_calls=1)

    number: int

    def execute(self, call: Call) -> EffectOutcome:
        return Succeeded("pong", result={"pong": call.row.job_key})


def ping_contract(pings: list[JobKey]) -> type[Ping]:
    class Counted(Ping):
        def execute(self, call: Call) -> EffectOutcome:
            pings.append(call.row.job_key)
            return super().execute(call)

    return Counted


def ping_message(number: object = 7) -> dict[str, object]:
    return {"job": "test.ping", "v": 1, "number": number}
