"""The smallest contract: it reads no row, writes none and saves no reference."""

from datetime import timedelta
from typing import Literal

from oncely.contract import Call, Contract, Message, Needs, Proceed, Standing, Words
from oncely.domain.answers import Answer, Done
from oncely.domain.keys import JobKey, job_key
from oncely.domain.profiles import Profile, Safety, Terms


class PingMessage(Message):
    job: Literal["test.ping"]
    v: Literal[1]
    number: int


class Ping(Contract[PingMessage, None]):
    """What is left is the engine's own: its cost, and its claim as the only guard."""

    job_type = "test.ping"
    message = PingMessage
    terms = Terms(
        safety=Safety.AT_MOST_ONCE,
        profile=Profile(name="Ping", request_timeout=timedelta(seconds=1), calls=1),
    )
    needs = Needs(queue="pings")
    words = Words(outside="a ping.", rows="none.", success="a pong.", failure="none.")

    @classmethod
    def key(cls, message: PingMessage) -> JobKey:
        return job_key(cls.job_type, message.number)

    def check(self, message: PingMessage) -> Standing[None]:
        return Proceed(facts=None, values={"number": message.number})

    def act(self, call: Call[None]) -> Answer:
        return Done("pong", result={"pong": call.job.job_key})


def pinging_into(pings: list[JobKey]) -> type[Ping]:
    """The same contract, with a list of what really happened."""

    class Counted(Ping):
        def act(self, call: Call[None]) -> Answer:
            pings.append(call.job.job_key)
            return super().act(call)

    return Counted


def ping(number: object = 7) -> dict[str, object]:
    return {"job": "test.ping", "v": 1, "number": number}
