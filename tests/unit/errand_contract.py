"""A job type whose every step does what the test says."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from oncely.contract import Call, Contract, Message, Needs, Proceed, Standing, Words
from oncely.domain.answers import Answer, Done, Prepared
from oncely.domain.keys import JobKey, job_key
from oncely.domain.profiles import Safety
from tests.support.world import World
from tests.unit.samples import TERMS

FACTS = "where to go"
READY_TO_GO: Proceed[str] = Proceed(facts=FACTS, values={"to": "the bank"})


class ErrandMessage(Message):
    job: Literal["errand.run"]
    v: Literal[1]
    errand_id: str


class Errand(Contract[ErrandMessage, str]):
    job_type = "errand.run"
    message = ErrandMessage
    terms = TERMS
    needs = Needs(queue="errands")
    words = Words(outside="an errand.", rows="none.", success="it is run.", failure="never.")

    checks: Callable[[], Standing[str]]
    prepares: Callable[[], Prepared | Answer | None]
    acts: Callable[[Call[str]], Answer]
    asks: Callable[[Call[str]], Answer]

    @classmethod
    def key(cls, message: ErrandMessage) -> JobKey:
        return job_key(cls.job_type, message.errand_id)

    def check(self, message: ErrandMessage) -> Standing[str]:
        return self.checks()

    def prepare(self, call: Call[str]) -> Prepared | Answer | None:
        return self.prepares()

    def act(self, call: Call[str]) -> Answer:
        return self.acts(call)

    def ask(self, call: Call[str]) -> Answer:
        return self.asks(call)


MESSAGE = ErrandMessage(job="errand.run", v=1, errand_id="7")
KEY = Errand.key(MESSAGE)


def errand_type(safety: Safety = Safety.KEYED, **steps: Callable[..., object]) -> type[Errand]:
    """An errand that goes well, but for these steps."""
    going_well: dict[str, Callable[..., object]] = {
        "checks": lambda: READY_TO_GO,
        "prepares": lambda: None,
        "acts": lambda _: Done("run"),
        "asks": lambda _: Done("was run"),
    }
    members = {name: staticmethod(step) for name, step in {**going_well, **steps}.items()}
    return type("AnErrand", (Errand,), {"terms": replace(TERMS, safety=safety), **members})


def errand(safety: Safety = Safety.KEYED, **steps: Callable[..., object]) -> Errand:
    """The same, ready to run."""
    return errand_type(safety, **steps)(World().tools)


def raising(error: Exception) -> Callable[..., Any]:
    """A step that fails like this."""

    def fail(*_: object) -> None:
        raise error

    return fail
