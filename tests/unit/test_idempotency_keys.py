"""Idempotency keys: the same on every attempt, and never too long."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.core.effect_outcomes import EffectOutcome, LookupOutcome, Succeeded
from oncely.core.job_type import Call
from oncely.core.keys import IdempotencyKey, JobKey, idempotency_key, job_key
from oncely.core.lifecycle import Status
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.errand_job import FACTS, MESSAGE, errand_type, make_errand
from tests.unit.samples import KEY, PROFILE, make_job

LONGEST = JobKey("payment.charge:" + "x" * 185)
LIMIT = st.integers(32, 255)
NUMBER = st.integers(1, 10**9)
STEP = st.sampled_from(["create", "confirm", "cancel"])


def test_idempotency_key_names_job_step_and_number() -> None:
    assert idempotency_key(KEY, "confirm", 2) == "payment.charge:order_18452:confirm:2"


@given(limit=LIMIT, number=NUMBER, step=STEP)
def test_idempotency_key_is_stable_and_within_limit(limit: int, number: int, step: str) -> None:
    key = idempotency_key(LONGEST, step, number, max_length=limit)
    assert len(key) <= limit
    assert key == idempotency_key(LONGEST, step, number, max_length=limit)


@given(limit=LIMIT, steps=st.tuples(STEP, STEP), numbers=st.tuples(NUMBER, NUMBER))
def test_idempotency_key_differs_by_step_and_number(
    limit: int, steps: tuple[str, str], numbers: tuple[int, int]
) -> None:
    one, other = (
        idempotency_key(LONGEST, step, number, max_length=limit)
        for step, number in zip(steps, numbers, strict=True)
    )

    assert (one == other) is (steps[0] == steps[1] and numbers[0] == numbers[1])


@pytest.mark.parametrize(("length", "is_plain"), [(255, True), (256, False)])
def test_idempotency_key_is_plain_up_to_length_limit(length: int, *, is_plain: bool) -> None:
    step = "s" * (length - len(f"{LONGEST}::1"))
    assert (idempotency_key(LONGEST, step, 1) == f"{LONGEST}:{step}:1") is is_plain


def test_lookup_uses_idempotency_key_of_effect() -> None:
    keys: list[IdempotencyKey] = []

    def acts(call: Call[str]) -> EffectOutcome:
        keys.append(call.idempotency_key("run"))
        raise TimeoutError

    def asks(call: Call[str]) -> LookupOutcome:
        keys.append(call.idempotency_key("run"))
        return Succeeded("was run")

    profile = replace(PROFILE, max_key_length=40)
    world = InMemoryStack(contracts=(errand_type(acts=acts, asks=asks, profile=profile),))
    errand_id = "t" * 60
    world.run({**MESSAGE, "errand_id": errand_id})

    done = world.reconciler().resolve(job_key("errand.run", errand_id), on_demand=True)

    sent, asked = keys
    assert done.to_status is Status.FINISHED
    assert sent == asked
    assert len(sent) == 40


@given(limit=LIMIT)
def test_resubmitted_job_has_own_idempotency_keys(limit: int) -> None:
    first, second = (job_key("payment.charge", *parts) for parts in (("1",), ("1", 2)))
    keys = {idempotency_key(one, "create", 2, max_length=limit) for one in (first, second)}
    assert len(keys) == 2


def test_retries_reuse_idempotency_key_until_absence_is_proved() -> None:
    again = {"attempts": 5, "owner": "owner-5", "fence": 5}
    first, second, proved = (
        make_errand().new_call(make_job(**changes), FACTS).idempotency_key("create")
        for changes in ({}, again, {**again, "key_number": 2})
    )

    assert first == second != proved


def test_call_keeps_idempotency_key_within_provider_limit() -> None:
    call = make_errand(profile=replace(PROFILE, max_key_length=32)).new_call(make_job(), FACTS)
    assert len(call.idempotency_key("create")) == 32
