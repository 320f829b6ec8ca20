"""A deployment that is not complete: nothing is claimed, nothing is sent twice."""

from dataclasses import dataclass, replace
from typing import Literal

import pytest

from oncely.contract import (
    Contract,
    Description,
    EffectCall,
    Message,
    PrecheckResult,
    Proceed,
    Resources,
)
from oncely.domain.effect_outcomes import EffectOutcome
from oncely.domain.errors import NotConfiguredError
from oncely.domain.keys import JobKey, job_key
from oncely.domain.profiles import RetryPolicy, RetrySafety
from oncely.providers.ses.plugin import PROFILE as SES
from oncely.run.outcomes import AwaitingResolution, Unknown
from tests.support.in_memory_stack import FakePorts, InMemoryStack, charge_message

SENT_POSTCARDS: list[str] = []


class PostcardMessage(Message):
    job: Literal["postcard.send"]
    v: Literal[1]
    to: str


class Postcard(Contract[PostcardMessage, str]):
    """Sends, and only then finds that it cannot note it down."""

    job_type = "postcard.send"
    message = PostcardMessage
    example = PostcardMessage(job="postcard.send", v=1, to="Ada")
    policy = RetryPolicy(safety=RetrySafety.AT_MOST_ONCE, profile=SES)
    resources = Resources(queue="mail")
    description = Description(
        effect="a postcard.", business_rows="none.", success="sent.", failure="refused."
    )

    @classmethod
    def key(cls, message: PostcardMessage) -> JobKey:
        return job_key(cls.job_type, message.to)

    def precheck(self, message: PostcardMessage) -> PrecheckResult[str]:
        return Proceed(facts=message.to, values={"to": message.to})

    def execute(self, call: EffectCall[str]) -> EffectOutcome:
        SENT_POSTCARDS.append(call.facts)
        raise NotConfiguredError("the table 'postcards' is not there")


@dataclass(frozen=True, kw_only=True)
class PortsWithoutSecrets(FakePorts):
    def secret(self, name: str) -> str:
        raise NotConfiguredError(f"secret {name!r} cannot be read: create it")


def test_missing_secret_is_found_before_claim(world: InMemoryStack) -> None:
    runner = replace(world.runner(), dependencies=PortsWithoutSecrets(**vars(world.dependencies)))

    with pytest.raises(NotConfiguredError, match="create it"):
        world.run(charge_message(), runner=runner)

    assert world.store.get("payment.charge:order_18452") is None
    assert world.payments.calls == []


def test_misconfigured_effect_is_not_repeated_after_acting() -> None:
    SENT_POSTCARDS.clear()
    world = InMemoryStack(contracts=(Postcard,))
    message = {"job": "postcard.send", "v": 1, "to": "Ada"}

    outcomes = [world.run(message) for _ in range(3)]

    assert isinstance(outcomes[0], Unknown)
    assert all(isinstance(outcome, AwaitingResolution) for outcome in outcomes[1:])
    assert SENT_POSTCARDS == ["Ada"]
