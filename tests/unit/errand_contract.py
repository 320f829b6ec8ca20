"""A job type whose steps a test defines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from oncely.contracts.contract import Contract
from oncely.contracts.description import Description
from oncely.contracts.message import Message
from oncely.contracts.resources import Resources
from oncely.core.effect_outcomes import EffectOutcome, LookupOutcome, Prepared, Succeeded
from oncely.core.job_type import EffectCall, PrecheckResult, Proceed
from oncely.core.keys import JobKey, job_key
from oncely.core.profiles import RetrySafety
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import TERMS

Step = Callable[..., object]
FACTS = "where to go"
PROCEED: Proceed[str] = Proceed(facts=FACTS, values={"to": "the bank"})


class ErrandMessage(Message):
    job: Literal["errand.run"]
    v: Literal[1]
    errand_id: str


class Errand(Contract[ErrandMessage, str]):
    job_type = "errand.run"
    message = ErrandMessage
    policy = TERMS
    resources = Resources(queue="errands")
    description = Description(
        effect="an errand.", business_rows="none.", success="it is run.", failure="never."
    )

    checks: Callable[[], PrecheckResult[str]]
    prepares: Callable[[], Prepared | EffectOutcome | None]
    acts: Callable[[EffectCall[str]], EffectOutcome]
    asks: Callable[[EffectCall[str]], LookupOutcome]

    @classmethod
    def key(cls, message: ErrandMessage) -> JobKey:
        return job_key(cls.job_type, message.errand_id)

    def precheck(self, message: ErrandMessage) -> PrecheckResult[str]:
        return self.checks()

    def prepare(self, call: EffectCall[str]) -> Prepared | EffectOutcome | None:
        return self.prepares()

    def execute(self, call: EffectCall[str]) -> EffectOutcome:
        return self.acts(call)

    def lookup(self, call: EffectCall[str]) -> LookupOutcome:
        return self.asks(call)


MESSAGE = ErrandMessage(job="errand.run", v=1, errand_id="7")
KEY = Errand.key(MESSAGE)


def errand_type(safety: RetrySafety = RetrySafety.KEYED, **steps: Step) -> type[Errand]:
    """An errand whose steps succeed, except for these."""
    successful: dict[str, Step] = {
        "checks": lambda: PROCEED,
        "prepares": lambda: None,
        "acts": lambda _: Succeeded("run"),
        "asks": lambda _: Succeeded("was run"),
    }
    members = {name: staticmethod(step) for name, step in {**successful, **steps}.items()}
    return type("AnErrand", (Errand,), {"policy": replace(TERMS, safety=safety), **members})


def make_errand(safety: RetrySafety = RetrySafety.KEYED, **steps: Step) -> Errand:
    return errand_type(safety, **steps)(InMemoryStack().dependencies)


def raising_step(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail
