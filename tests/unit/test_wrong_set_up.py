"""A deployment that is not complete: nothing is claimed, nothing is sent twice."""

from dataclasses import dataclass, replace
from typing import Literal

import pytest

from oncely.contract import Call, Contract, Message, Needs, Proceed, Standing, Words
from oncely.domain.answers import Answer
from oncely.domain.errors import NotConfiguredError
from oncely.domain.keys import JobKey, job_key
from oncely.domain.profiles import SES, Safety, Terms
from oncely.services.outcomes import Parked, Unknown
from tests.support.world import FakeTools, World, charge

SENT: list[str] = []


class PostcardMessage(Message):
    """Send a postcard."""

    job: Literal["postcard.send"]
    v: Literal[1]
    to: str


class Postcard(Contract[PostcardMessage, str]):
    """Sends, and only then finds that it cannot note it down."""

    job_type = "postcard.send"
    message = PostcardMessage
    example = PostcardMessage(job="postcard.send", v=1, to="Ada")
    terms = Terms(safety=Safety.AT_MOST_ONCE, profile=SES)
    needs = Needs(queue="mail")
    words = Words(outside="a postcard.", rows="none.", success="sent.", failure="refused.")

    @classmethod
    def key(cls, message: PostcardMessage) -> JobKey:
        return job_key(cls.job_type, message.to)

    def check(self, message: PostcardMessage) -> Standing[str]:
        return Proceed(facts=message.to, values={"to": message.to})

    def act(self, call: Call[str]) -> Answer:
        SENT.append(call.facts)
        raise NotConfiguredError("the table 'postcards' is not there")


@dataclass(frozen=True, kw_only=True)
class NoSecrets(FakeTools):
    def secret(self, name: str) -> str:
        raise NotConfiguredError(f"secret {name!r} cannot be read: create it")


def test_missing_secret_is_found_before_claim() -> None:
    world = World()
    world.add_order()
    runner = replace(world.runner(), tools=NoSecrets(**vars(world.tools)))

    with pytest.raises(NotConfiguredError, match="create it"):
        world.run(charge(), runner=runner)

    assert world.store.get("payment.charge:order_18452") is None
    assert world.payments.calls == []


def test_misconfigured_effect_is_not_repeated_after_acting() -> None:
    SENT.clear()
    world = World(contracts=(Postcard,))
    message = {"job": "postcard.send", "v": 1, "to": "Ada"}

    outcomes = [world.run(message) for _ in range(3)]

    assert isinstance(outcomes[0], Unknown)
    assert all(isinstance(outcome, Parked) for outcome in outcomes[1:])
    assert SENT == ["Ada"]
