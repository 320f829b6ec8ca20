"""Idempotency keys behave as at Stripe, for the same time."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import stripe
from stripe.params import PaymentIntentCreateParams

from oncely.testing.sandbox import FaultKind
from tests.integration.stripe_sandbox.sandbox_client import (
    CHARGE,
    CONFIRM,
    ORDER,
    CallableClock,
    Intents,
    client_for_sandbox,
    error_code,
    keyed,
    wait_until,
    was_replayed,
)
from tests.support.shipped_sandbox import ShippedSandbox


def test_same_key_replays_first_reply(sandbox: ShippedSandbox, intents: Intents) -> None:
    first = intents.create(CHARGE, keyed("order_1"))
    again = intents.create(CHARGE, keyed("order_1"))
    assert (first.id, was_replayed(first), was_replayed(again)) == (again.id, False, True)
    assert len(sandbox.stripe.ledger.charges) == 1
    assert [request.idempotency_key for request in sandbox.ledger.requests] == ["order_1"] * 2


def test_key_reused_for_other_request_is_rejected(intents: Intents) -> None:
    intents.create(ORDER, keyed("order_1"))
    with pytest.raises(stripe.IdempotencyError):
        intents.create({**ORDER, "amount": 5000}, keyed("order_1"))


def test_key_expires_with_its_window(
    sandbox: ShippedSandbox, intents: Intents, clock: CallableClock
) -> None:
    first = intents.create(CHARGE, keyed("order_1"))
    clock.advance(hours=24)
    assert intents.create(CHARGE, keyed("order_1")).id != first.id
    assert len(sandbox.stripe.ledger.charges) == 2


def test_key_conflicts_while_first_request_runs(sandbox: ShippedSandbox, intents: Intents) -> None:
    slow = sandbox.faults.add(FaultKind.SLOW, seconds=30)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(intents.create, CHARGE, keyed("order_1"))
        assert wait_until(lambda: slow.hits == 1)
        with pytest.raises(stripe.APIError) as conflict:
            intents.create(CHARGE, keyed("order_1"))
        slow.release()

    error = conflict.value
    assert (error.http_status, error_code(error)) == (409, "idempotency_key_in_use")
    assert first.result().status == "succeeded"
    assert len(sandbox.stripe.ledger.charges) == 1


def test_concurrent_requests_of_key_charge_once(sandbox: ShippedSandbox, intents: Intents) -> None:
    def charge(_: int) -> str:
        try:
            return str(intents.create(CHARGE, keyed("order_1")).status)
        except stripe.APIError as error:
            return str(error_code(error))

    with ThreadPoolExecutor(16) as pool:
        answers = set(pool.map(charge, range(64)))

    assert answers <= {"succeeded", "idempotency_key_in_use"}
    assert len(sandbox.stripe.ledger.charges) == 1


def test_concurrent_confirms_charge_once(sandbox: ShippedSandbox, intents: Intents) -> None:
    intent = intents.create(ORDER)

    def confirm(number: int) -> str:
        try:
            return str(intents.confirm(intent.id, CONFIRM, keyed(f"attempt_{number}")).status)
        except stripe.InvalidRequestError as error:
            return str(error.code)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(confirm, range(32)))

    assert answers.count("succeeded") == len(sandbox.stripe.ledger.charges) == 1


def test_decline_is_replayed(sandbox: ShippedSandbox, intents: Intents) -> None:
    declining: PaymentIntentCreateParams = {**CHARGE, "payment_method": "pm_card_chargeDeclined"}
    for _ in range(2):
        with pytest.raises(stripe.CardError):
            intents.create(declining, keyed("order_1"))
    assert len(sandbox.stripe.ledger.attempts) == 1


def test_invalid_request_leaves_key_free(intents: Intents) -> None:
    wrong: Any = {**ORDER, "amount": 0}
    with pytest.raises(stripe.InvalidRequestError):
        intents.create(wrong, keyed("order_1"))
    assert intents.create(ORDER, keyed("order_1")).status == "requires_confirmation"


def test_provider_that_ignores_keys_charges_twice(clock: CallableClock) -> None:
    with ShippedSandbox(clock=clock, honors_idempotency_keys=False) as sandbox:
        for _ in range(2):
            client_for_sandbox(sandbox).v1.payment_intents.create(CHARGE, keyed("order_1"))
        assert len(sandbox.stripe.ledger.charges_for("payment.charge:order_18452")) == 2
