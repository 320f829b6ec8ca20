"""The smallest contract: it reads no row, writes none and saves no reference."""

from datetime import timedelta
from typing import Literal

from oncely.contracts.contract import Contract
from oncely.contracts.description import Description
from oncely.contracts.message import Message
from oncely.contracts.resources import Resources
from oncely.core.effect_outcomes import EffectOutcome, Succeeded
from oncely.core.job_type import EffectCall, PrecheckResult, Proceed
from oncely.core.keys import JobKey, job_key
from oncely.core.profiles import ProviderProfile, RetryPolicy, RetrySafety


class PingMessage(Message):
    job: Literal["test.ping"]
    v: Literal[1]
    number: int


class Ping(Contract[PingMessage, None]):
    """What remains is the engine itself: its cost, and its claim as the only guard."""

    job_type = "test.ping"
    message = PingMessage
    policy = RetryPolicy(
        safety=RetrySafety.AT_MOST_ONCE,
        profile=ProviderProfile(name="Ping", request_timeout=timedelta(seconds=1), max_calls=1),
    )
    resources = Resources(queue="pings")
    description = Description(
        effect="a ping.", business_rows="none.", success="a pong.", failure="none."
    )

    @classmethod
    def key(cls, message: PingMessage) -> JobKey:
        return job_key(cls.job_type, message.number)

    def precheck(self, message: PingMessage) -> PrecheckResult[None]:
        return Proceed(facts=None, values={"number": message.number})

    def execute(self, call: EffectCall[None]) -> EffectOutcome:
        return Succeeded("pong", result={"pong": call.job.job_key})


def ping_contract(pings: list[JobKey]) -> type[Ping]:
    class Counted(Ping):
        def execute(self, call: EffectCall[None]) -> EffectOutcome:
            pings.append(call.job.job_key)
            return super().execute(call)

    return Counted


def ping_message(number: object = 7) -> dict[str, object]:
    return {"job": "test.ping", "v": 1, "number": number}
