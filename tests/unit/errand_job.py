"""A job type whose steps a test defines."""

from collections.abc import Callable
from dataclasses import replace
from types import new_class
from typing import Any, ClassVar

from oncely.contracts.job import Job
from oncely.core.effect_outcomes import EffectOutcome, LookupOutcome, Prepared, Succeeded
from oncely.core.job_type import Call, PrecheckResult, Proceed
from oncely.core.profiles import RetrySafety
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import TERMS

Step = Callable[..., object]
FACTS = "where to go"
PROCEED: Proceed[str] = Proceed(facts=FACTS, values={"to": "the bank"})


class Errand(Job[str]):
    """An errand."""

    job_type = "errand.run"
    key = "errand_id"
    queue = "errands"
    profile = TERMS.profile
    safety = "keyed"
    writes = ("orders",)

    errand_id: str
    checks: ClassVar[Callable[..., PrecheckResult[str]]]
    prepares: ClassVar[Callable[..., Prepared | EffectOutcome | None]]
    acts: ClassVar[Callable[..., EffectOutcome]]
    asks: ClassVar[Callable[..., LookupOutcome]]

    def precheck(self) -> PrecheckResult[str]:
        return self.checks()

    def prepare(self, call: Call[str]) -> Prepared | EffectOutcome | None:
        return self.prepares()

    def execute(self, call: Call[str]) -> EffectOutcome:
        return self.acts(call)

    def lookup(self, call: Call[str]) -> LookupOutcome:
        return self.asks(call)


MESSAGE = Errand(errand_id="7").to_dict()
KEY = Errand(errand_id="7").job_key()


def errand_type(safety: RetrySafety = RetrySafety.KEYED, **given: object) -> type[Errand]:
    """An errand whose steps succeed, with these steps and declarations in place of its own."""
    successful: dict[str, Step] = {
        "checks": lambda: PROCEED,
        "prepares": lambda: None,
        "acts": lambda _: Succeeded("run"),
        "asks": lambda _: Succeeded("was run"),
    }
    members = {
        name: staticmethod(one) if callable(one) else one
        for name, one in {**successful, **given}.items()
    }
    made: type[Errand] = new_class("AnErrand", (Errand,), {}, lambda names: names.update(members))
    # Natural as well, which no author may combine with a lookup.
    made.policies = {"": replace(made.policy, safety=safety)}
    return made


def make_errand(safety: RetrySafety = RetrySafety.KEYED, **given: object) -> Errand:
    errand = errand_type(safety, **given)(errand_id="7")
    return errand.with_tools(InMemoryStack().tools)


def raising_step(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail
