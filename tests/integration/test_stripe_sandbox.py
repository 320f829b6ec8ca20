"""The sandbox answers the official Stripe client as Stripe would, and fails on demand."""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import stripe
from stripe.params import PaymentIntentConfirmParams, PaymentIntentCreateParams

from infra.local.engine import REPOSITORY
from infra.local.sandbox import FaultKind, StripeSandbox

pytestmark = pytest.mark.enable_socket

Intents = stripe.PaymentIntentService

ORDER: PaymentIntentCreateParams = {
    "amount": 4900,
    "currency": "eur",
    "customer": "cus_1",
    "payment_method": "pm_card_visa",
    "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
    "metadata": {"job_key": "payment.charge:order_18452", "order_id": "18452"},
}
CONFIRM: PaymentIntentConfirmParams = {"off_session": True, "error_on_requires_action": True}
CHARGE: PaymentIntentCreateParams = {
    **ORDER,
    "confirm": True,
    "off_session": True,
    "error_on_requires_action": True,
}
INTENTS = "/v1/payment_intents"
CONFIRMS = "/v1/payment_intents/*/confirm"


class FakeClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 11, 16, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **by: float) -> None:
        self.time += timedelta(**by)


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    # It would write an id into the home folder of whoever runs the tests.
    monkeypatch.setattr(stripe, "enable_telemetry", False)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def sandbox(clock: FakeClock) -> Iterator[StripeSandbox]:
    with StripeSandbox(clock=clock, search_lag=timedelta(minutes=1)) as sandbox:
        yield sandbox


@pytest.fixture
def intents(sandbox: StripeSandbox) -> Intents:
    return client_of(sandbox).v1.payment_intents


def client_of(
    sandbox: StripeSandbox, *, api_key: str = "sk_test_oncely", patience: float = 5.0
) -> stripe.StripeClient:
    return stripe.StripeClient(
        api_key,
        max_network_retries=0,
        base_addresses={"api": sandbox.url},
        http_client=stripe.RequestsClient(timeout=(1.0, patience)),
    )


def keyed(key: str) -> stripe.RequestOptions:
    return {"idempotency_key": key}


def error_code(error: stripe.StripeError) -> str | None:
    return error.error.code if error.error else None


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5.0
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def was_replayed(intent: stripe.PaymentIntent) -> bool:
    assert intent.last_response is not None
    return intent.last_response.headers.get("Idempotent-Replayed") == "true"


# What a payment goes through.


def test_an_intent_created_unconfirmed_moves_no_money(
    sandbox: StripeSandbox, intents: Intents
) -> None:
    intent = intents.create(ORDER)

    assert intent.status == "requires_confirmation"
    assert sandbox.ledger.charges == ()


def test_confirming_moves_the_money_once_and_shows_the_charge(
    sandbox: StripeSandbox, intents: Intents
) -> None:
    intent = intents.confirm(intents.create(ORDER).id, {**CONFIRM, "expand": ["latest_charge"]})

    (charge,) = sandbox.ledger.charges_for("18452")
    assert intent.status == "succeeded"
    assert isinstance(intent.latest_charge, stripe.Charge)
    assert intent.latest_charge.id == charge.charge_id
    assert (charge.amount, charge.currency, charge.customer) == (4900, "eur", "cus_1")


def test_an_answer_carries_its_request_id(sandbox: StripeSandbox, intents: Intents) -> None:
    intent = intents.create(ORDER)

    assert intent.last_response is not None
    assert intent.last_response.request_id == sandbox.ledger.requests[-1].request_id


@pytest.mark.parametrize("step", ["confirm", "cancel"])
def test_a_paid_intent_can_neither_be_confirmed_nor_canceled(
    sandbox: StripeSandbox, intents: Intents, step: str
) -> None:
    paid = intents.create(CHARGE)

    with pytest.raises(stripe.InvalidRequestError) as refused:
        getattr(intents, step)(paid.id)

    assert refused.value.code == "payment_intent_unexpected_state"
    assert len(sandbox.ledger.charges) == 1


def test_a_canceled_intent_never_takes_money(sandbox: StripeSandbox, intents: Intents) -> None:
    canceled = intents.cancel(intents.create(ORDER).id)

    with pytest.raises(stripe.InvalidRequestError) as refused:
        intents.confirm(canceled.id, CONFIRM)

    assert canceled.status == "canceled"
    assert refused.value.code == "payment_intent_unexpected_state"
    assert sandbox.ledger.charges == ()


@pytest.mark.parametrize(
    ("payment_method", "code", "decline_code"),
    [
        ("pm_card_chargeDeclined", "card_declined", "generic_decline"),
        ("pm_card_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds"),
        ("pm_card_authenticationRequired", "authentication_required", "authentication_required"),
    ],
)
def test_a_decline_says_why_and_leaves_the_intent_open(
    sandbox: StripeSandbox,
    intents: Intents,
    payment_method: str,
    code: str,
    decline_code: str,
) -> None:
    intent = intents.create({**ORDER, "payment_method": payment_method})

    with pytest.raises(stripe.CardError) as declined:
        intents.confirm(intent.id, CONFIRM)

    error = declined.value.error
    assert error is not None
    assert error.payment_intent is not None
    assert (error.code, error.decline_code) == (code, decline_code)
    assert error.payment_intent.status == "requires_payment_method"
    assert intents.retrieve(intent.id).last_payment_error is not None
    assert sandbox.ledger.charges == ()


def test_a_customer_who_is_present_is_asked_to_act(
    sandbox: StripeSandbox, intents: Intents
) -> None:
    intent = intents.create({**ORDER, "payment_method": "pm_card_authenticationRequired"})

    assert intents.confirm(intent.id).status == "requires_action"

    sandbox.settle(intent.id, succeeded=True)
    assert intents.retrieve(intent.id).status == "succeeded"


@pytest.mark.parametrize(
    ("succeeded", "status", "charges"),
    [(True, "succeeded", 1), (False, "requires_payment_method", 0)],
)
def test_a_processing_payment_ends_when_it_is_settled(
    sandbox: StripeSandbox,
    intents: Intents,
    succeeded: bool,  # noqa: FBT001 - pytest passes it by name
    status: str,
    charges: int,
) -> None:
    intent = intents.create({**CHARGE, "payment_method": "pm_processing"})
    assert (intent.status, sandbox.ledger.charges) == ("processing", ())

    sandbox.settle(intent.id, succeeded=succeeded)

    assert intents.retrieve(intent.id).status == status
    assert len(sandbox.ledger.charges) == charges


def test_a_refund_shows_on_the_charge(sandbox: StripeSandbox, intents: Intents) -> None:
    intent = intents.create(CHARGE)
    refunds = client_of(sandbox).v1.refunds

    refunds.create({"payment_intent": intent.id})

    charge = intents.retrieve(intent.id, {"expand": ["latest_charge"]}).latest_charge
    assert isinstance(charge, stripe.Charge)
    assert charge.refunded
    with pytest.raises(stripe.InvalidRequestError, match="already been refunded"):
        refunds.create({"payment_intent": intent.id})


# What is refused before anything happens.


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"amount": 0}, "parameter_invalid_integer", "amount"),
        ({"amount": -5}, "parameter_invalid_integer", "amount"),
        ({"amount": "49.00"}, "parameter_invalid_integer", "amount"),
        ({"currency": "EUR"}, None, "currency"),
        ({"colour": "red"}, "parameter_unknown", "colour"),
        ({"off_session": True}, None, "off_session"),
        ({"customer": "cus_missing_1"}, "resource_missing", "customer"),
        ({"payment_method": "pm_missing"}, "resource_missing", "payment_method"),
        (
            {"payment_method_types": ["card"]},
            "payment_method_types_no_longer_supported",
            "payment_method_types",
        ),
    ],
)
def test_a_wrong_parameter_is_named(
    sandbox: StripeSandbox,
    intents: Intents,
    change: dict[str, Any],
    code: str | None,
    param: str,
) -> None:
    order: Any = {**ORDER, **change}

    with pytest.raises(stripe.InvalidRequestError) as refused:
        intents.create(order)

    assert (refused.value.http_status, refused.value.code, refused.value.param) == (
        400,
        code,
        param,
    )
    assert sandbox.ledger.intents == ()


def test_an_intent_that_allows_redirects_asks_for_a_return_url(intents: Intents) -> None:
    without = {name: value for name, value in CHARGE.items() if name[:9] != "automatic"}
    order: Any = without

    with pytest.raises(stripe.InvalidRequestError) as refused:
        intents.create(order)

    assert refused.value.param == "return_url"


def test_an_unknown_intent_is_not_found(intents: Intents) -> None:
    with pytest.raises(stripe.InvalidRequestError) as refused:
        intents.retrieve("pi_nowhere")

    assert (refused.value.http_status, refused.value.code) == (404, "resource_missing")


def test_a_live_key_is_refused(sandbox: StripeSandbox) -> None:
    with pytest.raises(stripe.AuthenticationError):
        client_of(sandbox, api_key="sk_live_1").v1.payment_intents.create(ORDER)

    assert sandbox.ledger.intents == ()


def test_a_read_only_key_reads_and_does_not_write(sandbox: StripeSandbox, intents: Intents) -> None:
    reader = client_of(sandbox, api_key="sk_test_restricted_read").v1.payment_intents
    intent = intents.create(ORDER)

    assert reader.retrieve(intent.id).id == intent.id
    with pytest.raises(stripe.PermissionError):
        reader.confirm(intent.id, CONFIRM)


# What a key does.


def test_the_same_key_gives_the_first_answer_again(
    sandbox: StripeSandbox, intents: Intents
) -> None:
    first = intents.create(CHARGE, keyed("order_1"))
    again = intents.create(CHARGE, keyed("order_1"))

    assert first.id == again.id
    assert (was_replayed(first), was_replayed(again)) == (False, True)
    assert len(sandbox.ledger.charges) == 1
    assert [request.idempotency_key for request in sandbox.ledger.requests] == ["order_1"] * 2


def test_a_key_used_for_another_request_is_refused(intents: Intents) -> None:
    intents.create(ORDER, keyed("order_1"))

    with pytest.raises(stripe.IdempotencyError):
        intents.create({**ORDER, "amount": 5000}, keyed("order_1"))


def test_a_key_ends_with_its_window(
    sandbox: StripeSandbox, intents: Intents, clock: FakeClock
) -> None:
    first = intents.create(CHARGE, keyed("order_1"))

    clock.advance(hours=24)

    assert intents.create(CHARGE, keyed("order_1")).id != first.id
    assert len(sandbox.ledger.charges) == 2


def test_a_key_whose_first_request_still_executes_is_a_conflict(
    sandbox: StripeSandbox, intents: Intents
) -> None:
    slow = sandbox.faults.add(FaultKind.SLOW, seconds=30)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(intents.create, CHARGE, keyed("order_1"))
        assert soon(lambda: slow.hits == 1)
        with pytest.raises(stripe.APIError) as conflict:
            intents.create(CHARGE, keyed("order_1"))
        slow.release()

    assert (conflict.value.http_status, error_code(conflict.value)) == (
        409,
        "idempotency_key_in_use",
    )
    assert first.result().status == "succeeded"
    assert len(sandbox.ledger.charges) == 1


def test_many_at_once_under_one_key_charge_once(sandbox: StripeSandbox) -> None:
    client = client_of(sandbox)

    def charge(_: int) -> str:
        try:
            return str(client.v1.payment_intents.create(CHARGE, keyed("order_1")).status)
        except stripe.APIError as error:
            return str(error_code(error))

    with ThreadPoolExecutor(16) as pool:
        answers = set(pool.map(charge, range(64)))

    assert answers <= {"succeeded", "idempotency_key_in_use"}
    assert len(sandbox.ledger.charges) == 1


def test_many_confirms_at_once_under_different_keys_charge_once(sandbox: StripeSandbox) -> None:
    intents = client_of(sandbox).v1.payment_intents
    intent = intents.create(ORDER)

    def confirm(number: int) -> str:
        try:
            return str(intents.confirm(intent.id, CONFIRM, keyed(f"attempt_{number}")).status)
        except stripe.InvalidRequestError as error:
            return str(error.code)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(confirm, range(32)))

    assert answers.count("succeeded") == len(sandbox.ledger.charges) == 1


def test_a_decline_is_replayed(sandbox: StripeSandbox, intents: Intents) -> None:
    declining: PaymentIntentCreateParams = {**CHARGE, "payment_method": "pm_card_chargeDeclined"}

    for _ in range(2):
        with pytest.raises(stripe.CardError):
            intents.create(declining, keyed("order_1"))

    assert len(sandbox.ledger.attempts) == 1


def test_a_refusal_before_execution_leaves_the_key_free(intents: Intents) -> None:
    wrong: Any = {**ORDER, "amount": 0}
    with pytest.raises(stripe.InvalidRequestError):
        intents.create(wrong, keyed("order_1"))

    assert intents.create(ORDER, keyed("order_1")).status == "requires_confirmation"


def test_a_provider_that_ignores_keys_charges_twice(clock: FakeClock) -> None:
    with StripeSandbox(clock=clock, honours_keys=False) as sandbox:
        for _ in range(2):
            client_of(sandbox).v1.payment_intents.create(CHARGE, keyed("order_1"))

        assert len(sandbox.ledger.charges_for("payment.charge:order_18452")) == 2


# What can be found.


def test_a_search_finds_a_job_only_after_the_index_has_caught_up(
    intents: Intents, clock: FakeClock
) -> None:
    intent = intents.create(ORDER)
    query = "metadata['job_key']:'payment.charge:order_18452'"

    at_once = intents.search({"query": query}).data
    clock.advance(minutes=1)
    intents.confirm(intent.id, CONFIRM)
    later = intents.search({"query": query}).data

    assert at_once == []
    assert [(found.id, found.status) for found in later] == [(intent.id, "requires_confirmation")]


def test_a_search_joins_clauses(intents: Intents, clock: FakeClock) -> None:
    intents.create(ORDER)
    paid = intents.create(CHARGE)
    clock.advance(minutes=1)

    found = intents.search({"query": 'status:\'succeeded\' AND metadata["order_id"]:"18452"'})

    assert [one.id for one in found.data] == [paid.id]


def test_a_query_that_cannot_be_read_is_refused(intents: Intents) -> None:
    with pytest.raises(stripe.InvalidRequestError):
        intents.search({"query": "metadata['job_key']:'a' OR status:'succeeded'"})


def test_a_list_shows_a_customers_intents_newest_first_in_pages(intents: Intents) -> None:
    mine = [intents.create(ORDER).id for _ in range(3)]
    intents.create({**ORDER, "customer": "cus_2"})

    page = intents.list({"customer": "cus_1", "limit": 2})

    assert [one.id for one in page.auto_paging_iter()] == mine[::-1]
    assert page.has_more


# What goes wrong on demand.


@pytest.mark.parametrize("kind", [FaultKind.ACCEPT_THEN_DROP, FaultKind.TRUNCATED])
def test_a_connection_lost_after_the_charge_leaves_the_charge(
    sandbox: StripeSandbox, intents: Intents, kind: FaultKind
) -> None:
    intent = intents.create(ORDER)
    sandbox.faults.add(kind, method="POST", path=CONFIRMS)

    with pytest.raises(stripe.APIConnectionError):
        intents.confirm(intent.id, CONFIRM, keyed("confirm_1"))

    assert len(sandbox.ledger.charges) == 1
    assert was_replayed(intents.confirm(intent.id, CONFIRM, keyed("confirm_1")))


def test_a_client_gives_up_on_an_answer_that_hangs_after_the_charge(sandbox: StripeSandbox) -> None:
    hasty = client_of(sandbox, patience=0.2).v1.payment_intents
    sandbox.faults.add("accept_then_hang")

    with pytest.raises(stripe.APIConnectionError, match="Read timed out"):
        hasty.create(CHARGE)

    assert len(sandbox.ledger.charges) == 1


def test_a_hanging_answer_arrives_once_it_is_released(
    sandbox: StripeSandbox, intents: Intents
) -> None:
    fault = sandbox.faults.add(FaultKind.ACCEPT_THEN_HANG)

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(intents.create, CHARGE)
        assert soon(lambda: len(sandbox.ledger.charges) == 1)
        assert not waiting.done()
        fault.release()

    assert waiting.result().status == "succeeded"


@pytest.mark.parametrize(
    ("kind", "charges"), [(FaultKind.ERROR_BEFORE, 0), (FaultKind.ERROR_AFTER, 1)]
)
def test_a_500_is_kept_under_the_key_whether_or_not_it_charged(
    sandbox: StripeSandbox, intents: Intents, kind: FaultKind, charges: int
) -> None:
    sandbox.faults.add(kind, method="POST", path=INTENTS)

    for _ in range(2):
        with pytest.raises(stripe.APIError) as failed:
            intents.create(CHARGE, keyed("order_1"))

        assert failed.value.http_status == 500
    assert len(sandbox.ledger.charges) == charges


def test_a_garbled_answer_hides_a_charge(sandbox: StripeSandbox, intents: Intents) -> None:
    sandbox.faults.add(FaultKind.GARBLED)

    with pytest.raises(stripe.APIError, match="Invalid response body"):
        intents.create(CHARGE)

    assert len(sandbox.ledger.charges) == 1


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        (FaultKind.RATE_LIMIT, stripe.RateLimitError, 429),
        (FaultKind.UNAUTHORIZED, stripe.AuthenticationError, 401),
        (FaultKind.CONFLICT, stripe.APIError, 409),
        (FaultKind.OUTAGE, stripe.APIError, 503),
        (FaultKind.DROP_BEFORE, stripe.APIConnectionError, None),
    ],
)
def test_a_refusal_that_performs_nothing_leaves_the_key_free(
    sandbox: StripeSandbox,
    intents: Intents,
    kind: FaultKind,
    error: type[stripe.StripeError],
    status: int | None,
) -> None:
    sandbox.faults.add(kind)

    with pytest.raises(error) as failed:
        intents.create(CHARGE, keyed("order_1"))

    assert (failed.value.http_status, sandbox.ledger.intents) == (status, ())
    assert intents.create(CHARGE, keyed("order_1")).status == "succeeded"
    assert [request.fault for request in sandbox.ledger.requests] == [kind, None]


def test_a_fault_hits_only_the_requests_it_names(sandbox: StripeSandbox, intents: Intents) -> None:
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
        with StripeSandbox(seed=7) as sandbox:
            sandbox.faults.add("rate_limit", rate=0.5, times=None)
            intents = client_of(sandbox).v1.payment_intents
            for _ in range(20):
                try:
                    intents.create(ORDER)
                except stripe.RateLimitError:
                    continue
            return [request.fault for request in sandbox.ledger.requests]

    first = hits()

    assert first == hits()
    assert set(first) == {None, "rate_limit"}


def test_stopping_lets_go_of_requests_that_hang() -> None:
    with StripeSandbox() as sandbox, ThreadPoolExecutor() as pool:
        sandbox.faults.add(FaultKind.ACCEPT_THEN_HANG, seconds=600)
        waiting = pool.submit(client_of(sandbox).v1.payment_intents.create, CHARGE)
        assert soon(lambda: len(sandbox.ledger.charges) == 1)
        began = time.monotonic()
        sandbox.faults.clear()

    assert waiting.result().status == "succeeded"
    assert time.monotonic() - began < 5
    assert threading.active_count() < 10


# What other processes see.


def call(url: str, *, method: str = "GET", body: object = None) -> Any:  # noqa: ANN401 - JSON
    request = urllib.request.Request(  # noqa: S310 - the address is the sandbox's own
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - the same
        return json.load(answer)


def test_another_process_sets_faults_settles_and_reads_the_ledger() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "infra.local.sandbox", "--port", "0"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        intents = stripe.StripeClient(
            "sk_test_1", max_network_retries=0, base_addresses={"api": url}
        ).v1.payment_intents

        call(f"{url}/_sandbox/faults", method="POST", body={"kind": "outage"})
        with pytest.raises(stripe.APIError):
            intents.create(CHARGE)
        call(f"{url}/_sandbox/faults", method="DELETE")
        intent = intents.create({**CHARGE, "payment_method": "pm_processing"})
        settled = {"intent_id": intent.id, "succeeded": True}
        call(f"{url}/_sandbox/settle", method="POST", body=settled)
        ledger = call(f"{url}/_sandbox/ledger")
        process.send_signal(signal.SIGTERM)

    assert process.returncode == 0
    assert [request["fault"] for request in ledger["requests"]] == ["outage", None]
    assert [charge["intent_id"] for charge in ledger["charges"]] == [intent.id]
