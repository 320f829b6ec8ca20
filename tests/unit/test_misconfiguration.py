"""A deployment that is not complete: nothing is claimed, nothing is sent twice."""

from dataclasses import dataclass, replace

import pytest

from oncely.contract import EffectCall
from oncely.domain.effect_outcomes import EffectOutcome
from oncely.domain.errors import NotConfiguredError
from oncely.domain.profiles import RetrySafety
from oncely.run.outcomes import AwaitingResolution, Unknown
from tests.support.in_memory_stack import FakePorts, InMemoryStack, charge_message
from tests.unit.errand_contract import FACTS, MESSAGE, errand_type


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
    done: list[str] = []

    def act_then_fail(call: EffectCall[str]) -> EffectOutcome:
        done.append(call.facts)
        raise NotConfiguredError("the table 'errands' is not there")

    errand = errand_type(RetrySafety.AT_MOST_ONCE, acts=act_then_fail)
    world = InMemoryStack(contracts=(errand,))

    outcomes = [world.run(MESSAGE.to_dict()) for _ in range(3)]

    assert isinstance(outcomes[0], Unknown)
    assert all(isinstance(outcome, AwaitingResolution) for outcome in outcomes[1:])
    assert done == [FACTS]
