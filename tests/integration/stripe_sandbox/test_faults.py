"""The sandbox injects faults, and its ledger records what really happened."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import stripe

from oncely.testing.sandbox import FaultKind
from oncely.testing.sandbox.faults import FaultSet
from tests.integration.stripe_sandbox.sandbox_client import (
    CHARGE,
    CONFIRM,
    CONFIRMS,
    INTENTS,
    ORDER,
    Intents,
    client_for_sandbox,
    keyed,
    wait_until,
    was_replayed,
)
from tests.support.shipped_sandbox import ShippedSandbox


@pytest.mark.parametrize("kind", [FaultKind.ACCEPT_THEN_DROP, FaultKind.TRUNCATED])
def test_charge_remains_when_connection_is_lost_after_it(
    sandbox: ShippedSandbox, intents: Intents, kind: FaultKind
) -> None:
    intent = intents.create(ORDER)
    sandbox.faults.add(kind, method="POST", path=CONFIRMS)

    with pytest.raises(stripe.APIConnectionError):
        intents.confirm(intent.id, CONFIRM, keyed("confirm_1"))

    assert len(sandbox.stripe.ledger.charges) == 1
    assert was_replayed(intents.confirm(intent.id, CONFIRM, keyed("confirm_1")))


def test_hanging_reply_times_out_after_charge(sandbox: ShippedSandbox) -> None:
    hasty = client_for_sandbox(sandbox, timeout_seconds=0.2).v1.payment_intents
    sandbox.faults.add("accept_then_hang")
    with pytest.raises(stripe.APIConnectionError, match="Read timed out"):
        hasty.create(CHARGE)
    assert len(sandbox.stripe.ledger.charges) == 1


def test_trickling_reply_outlasts_read_timeout(sandbox: ShippedSandbox) -> None:
    hasty = client_for_sandbox(sandbox, timeout_seconds=1.0).v1.payment_intents
    sandbox.faults.add(FaultKind.ACCEPT_THEN_TRICKLE, seconds=3.0)
    began = time.monotonic()

    with pytest.raises(stripe.APIConnectionError):
        hasty.create(CHARGE)

    assert time.monotonic() - began >= 3.0
    assert len(sandbox.stripe.ledger.charges) == 1


def test_hanging_reply_arrives_when_released(sandbox: ShippedSandbox, intents: Intents) -> None:
    fault = sandbox.faults.add(FaultKind.ACCEPT_THEN_HANG)

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(intents.create, CHARGE)
        assert wait_until(lambda: len(sandbox.stripe.ledger.charges) == 1)
        assert not waiting.done()
        fault.release()

    assert waiting.result().status == "succeeded"


def test_ended_fault_holds_earlier_requests(sandbox: ShippedSandbox, intents: Intents) -> None:
    sandbox.faults.add(FaultKind.ACCEPT_THEN_HANG, times=None)

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(intents.create, CHARGE)
        assert wait_until(lambda: len(sandbox.stripe.ledger.charges) == 1)
        sandbox.faults.deactivate()

        assert intents.create(CHARGE).status == "succeeded"
        assert not waiting.done()
        sandbox.faults.clear()

    assert waiting.result().status == "succeeded"


@pytest.mark.parametrize(
    ("kind", "charges"), [(FaultKind.ERROR_BEFORE, 0), (FaultKind.ERROR_AFTER, 1)]
)
def test_error_500_is_replayed_under_key(
    sandbox: ShippedSandbox, intents: Intents, kind: FaultKind, charges: int
) -> None:
    sandbox.faults.add(kind, method="POST", path=INTENTS)

    for replayed in (None, "true"):
        with pytest.raises(stripe.APIError) as failed:
            intents.create(CHARGE, keyed("order_1"))

        assert failed.value.http_status == 500
        assert (failed.value.headers or {}).get("Idempotent-Replayed") == replayed
    assert len(sandbox.stripe.ledger.charges) == charges


def test_late_request_is_executed_after_its_connection_is_gone(
    sandbox: ShippedSandbox, intents: Intents
) -> None:
    late = sandbox.faults.add(FaultKind.ARRIVES_LATE)

    with pytest.raises(stripe.APIConnectionError):
        intents.create(CHARGE, keyed("order_1"))
    assert sandbox.stripe.ledger.charges == ()
    late.release()

    assert wait_until(lambda: len(sandbox.stripe.ledger.charges) == 1)
    assert intents.create(CHARGE, keyed("order_1")).status == "succeeded"
    assert len(sandbox.stripe.ledger.charges) == 1


def test_garbled_reply_hides_charge(sandbox: ShippedSandbox, intents: Intents) -> None:
    sandbox.faults.add(FaultKind.GARBLED)
    with pytest.raises(stripe.APIError, match="Invalid response body"):
        intents.create(CHARGE)
    assert len(sandbox.stripe.ledger.charges) == 1


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        (FaultKind.RATE_LIMIT, stripe.RateLimitError, 429),
        (FaultKind.UNAUTHORIZED, stripe.AuthenticationError, 401),
        (FaultKind.CONFLICT, stripe.APIError, 409),
        (FaultKind.ERROR_UNSTORED, stripe.APIError, 500),
        (FaultKind.OUTAGE, stripe.APIError, 503),
        (FaultKind.DROP_BEFORE, stripe.APIConnectionError, None),
    ],
)
def test_failed_request_without_effect_leaves_key_free(
    sandbox: ShippedSandbox,
    intents: Intents,
    kind: FaultKind,
    error: type[stripe.StripeError],
    status: int | None,
) -> None:
    sandbox.faults.add(kind)

    with pytest.raises(error) as failed:
        intents.create(CHARGE, keyed("order_1"))

    assert (failed.value.http_status, sandbox.stripe.ledger.intents) == (status, ())
    assert intents.create(CHARGE, keyed("order_1")).status == "succeeded"
    assert [request.fault for request in sandbox.ledger.requests] == [kind, None]


def test_fault_hits_only_matching_requests(sandbox: ShippedSandbox, intents: Intents) -> None:
    fault = sandbox.faults.add("outage", path=INTENTS, key_contains="order_2", skip=1, times=2)

    outcomes = []
    for key in ["order_1", "order_2:a", "order_2:b", "order_2:c", "order_2:d"]:
        try:
            intents.create(ORDER, keyed(key))
            outcomes.append("answered")
        except stripe.APIError:
            outcomes.append("failed")

    assert outcomes == ["answered", "answered", "failed", "failed", "answered"]
    assert fault.hits == 2


def test_faults_by_rate_are_repeatable() -> None:
    def hits() -> list[str | None]:
        with ShippedSandbox(seed=7) as sandbox:
            sandbox.faults.add("rate_limit", rate=0.5, times=None)
            intents = client_for_sandbox(sandbox).v1.payment_intents
            for _ in range(20):
                try:
                    intents.create(ORDER)
                except stripe.RateLimitError:
                    continue
            return [request.fault for request in sandbox.ledger.requests]

    first = hits()

    assert first == hits()
    assert set(first) == {None, "rate_limit"}


def test_clear_releases_hanging_requests() -> None:
    with ShippedSandbox() as sandbox, ThreadPoolExecutor() as pool:
        sandbox.faults.add(FaultKind.ACCEPT_THEN_HANG, seconds=600)
        waiting = pool.submit(client_for_sandbox(sandbox).v1.payment_intents.create, CHARGE)
        assert wait_until(lambda: len(sandbox.stripe.ledger.charges) == 1)
        began = time.monotonic()
        sandbox.faults.clear()

    assert waiting.result().status == "succeeded"
    assert time.monotonic() - began < 5
    assert threading.active_count() < 10


def test_unknown_fault_kind_lists_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown kind 'nonsense'; use one of accept_then_hang"):
        FaultSet().add("nonsense")
