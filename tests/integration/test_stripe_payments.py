"""The Stripe adapter under every faulty response, over real sockets."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import stripe

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    EffectOutcome,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    StillOpen,
    Succeeded,
)
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.lifecycle import Status
from oncely.core.money import Money
from oncely.core.outcomes import NeedsReview
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.payments import MAX_PAGES, PAGE_SIZE, StripePayments
from oncely_local.engine import free_port
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_failed, is_finished
from tests.support.shipped_sandbox import ShippedSandbox

CREATE = "/v1/payment_intents"
CONFIRM = "/v1/payment_intents/*/confirm"
CANCEL = "/v1/payment_intents/*/cancel"
KEY = "payment.charge:order_18452"
CREATE_KEY, CONFIRM_KEY = IdempotencyKey("create:1"), IdempotencyKey("confirm:1")


@pytest.fixture
def provider(sandbox: ShippedSandbox) -> StripePayments:
    return StripePayments.from_api_key("sk_test_1", api_base=sandbox.url)


def make_payment(**changes: str) -> Payment:
    return Payment(
        money=Money(1250, "eur"),
        customer=changes.get("customer", "cus_7"),
        method=changes.get("method", "pm_card_visa"),
        job_key=JobKey(KEY),
        order_id="18452",
    )


def prepare_payment(provider: StripePayments, **changes: str) -> str:
    prepared = provider.prepare(make_payment(**changes), idempotency_key=CREATE_KEY)
    assert isinstance(prepared, Prepared)
    return prepared.ref


def confirm_payment(provider: StripePayments, **changes: str) -> EffectOutcome:
    ref = prepare_payment(provider, **changes)
    asked = make_payment(**changes)
    return provider.execute(ref, asked, idempotency_key=CONFIRM_KEY, verified=True)


def charge_payment(provider: StripePayments) -> tuple[str, str]:
    done = confirm_payment(provider)
    assert isinstance(done, Succeeded)
    return str(done.ref), str(done.result["charge_id"])


CONFIRM_FAULTS = [
    # Not performed, and Stripe says so.
    ("rate_limit", NotSent, 0),
    ("unauthorized", NotSent, 0),
    # Performed: the intent's own state, read back, is the answer.
    ("accept_then_drop", Succeeded, 1),
    ("error_after", Succeeded, 1),
    ("garbled", Succeeded, 1),
    ("truncated", Succeeded, 1),
    # Not performed, but that cannot be known yet.
    ("error_before", Ambiguous, 0),
    ("drop_before", Ambiguous, 0),
    ("conflict", Ambiguous, 0),
    ("outage", Ambiguous, 0),
]


@pytest.mark.parametrize(("fault", "expected", "charges"), CONFIRM_FAULTS)
def test_confirm_error_returns_state_of_intent(
    sandbox: ShippedSandbox, provider: StripePayments, fault: str, expected: type, charges: int
) -> None:
    sandbox.faults.add(fault, path=CONFIRM)
    assert isinstance(confirm_payment(provider), expected)
    assert len(sandbox.stripe.ledger.charges) == charges


def test_payment_succeeds_on_forgotten_connection(
    sandbox: ShippedSandbox, provider: StripePayments
) -> None:
    """A Lambda function thaws with a dead connection of its last invocation."""
    ref = prepare_payment(provider)
    sandbox.generation += 1
    done = provider.execute(ref, make_payment(), idempotency_key=CONFIRM_KEY, verified=True)
    assert isinstance(done, Succeeded)


def test_changed_payment_keeps_its_sum(sandbox: ShippedSandbox, provider: StripePayments) -> None:
    ref = prepare_payment(provider)
    (intent,) = sandbox.stripe.ledger.intents
    sandbox.stripe.ledger.save(replace(intent, amount=9900))
    provider.execute(ref, make_payment(), idempotency_key=CONFIRM_KEY, verified=True)
    assert [one.amount for one in sandbox.stripe.ledger.charges] == [1250]


@pytest.mark.parametrize(("fault", "confirm_outcome", "_"), CONFIRM_FAULTS)
def test_create_error_is_ambiguous_unless_rejected(
    sandbox: ShippedSandbox, provider: StripePayments, fault: str, confirm_outcome: type, _: int
) -> None:
    sandbox.faults.add(fault, method="POST", path=CREATE)
    answer = provider.prepare(make_payment(), idempotency_key=CREATE_KEY)
    assert isinstance(answer, NotSent if confirm_outcome is NotSent else Ambiguous)
    assert sandbox.stripe.ledger.charges == ()


def test_confirm_is_ambiguous_when_reply_and_read_hang(
    sandbox: ShippedSandbox, provider: StripePayments
) -> None:
    hurried = stripe.StripeClient(
        "sk_test_1",
        base_addresses={"api": sandbox.url},
        max_network_retries=0,
        http_client=stripe.RequestsClient(timeout=(1, 0.3)),
    )
    ref = prepare_payment(provider)
    sandbox.faults.add("accept_then_hang", path=CONFIRM, seconds=2)
    sandbox.faults.add("accept_then_hang", method="GET", seconds=2)

    execute = StripePayments(hurried).execute
    answer = execute(ref, make_payment(), idempotency_key=CONFIRM_KEY, verified=True)

    assert isinstance(answer, Ambiguous)
    assert len(sandbox.stripe.ledger.charges) == 1


@pytest.mark.parametrize("host", ["127.0.0.1:{closed}", "no-such-host.invalid:80"])
def test_failed_connection_sends_nothing(host: str) -> None:
    base = "http://" + host.format(closed=free_port())
    provider = StripePayments.from_api_key("sk_test_1", api_base=base)
    assert isinstance(provider.prepare(make_payment(), idempotency_key=CREATE_KEY), NotSent)


def test_library_never_retries_effect(sandbox: ShippedSandbox, provider: StripePayments) -> None:
    sandbox.faults.add("drop_before", path=CONFIRM, times=None)
    sandbox.faults.add("error_before", method="POST", path=CREATE, key_contains="broken")

    confirm_payment(provider)
    provider.prepare(make_payment(), idempotency_key=IdempotencyKey("broken:1"))

    paths = [request.path for request in sandbox.ledger.requests if request.method == "POST"]
    assert sum(path.endswith("/confirm") for path in paths) == 1
    assert paths.count(CREATE) == 2


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("pm_card_chargeDeclined", "card_declined"),
        ("pm_card_chargeDeclinedInsufficientFunds", "card_declined"),
        ("pm_card_authenticationRequired", "authentication_required"),
    ],
)
def test_decline_leaves_payment_open(provider: StripePayments, method: str, code: str) -> None:
    answer = confirm_payment(provider, method=method)
    assert isinstance(answer, StillOpen)
    assert answer.code == code
    # The reason outlives the intent: a failed job shows it after a worker canceled the intent.
    assert "open" not in answer.reason


@pytest.mark.parametrize("wrong", [{"customer": "cus_missing_1"}, {"method": "pm_missing"}])
def test_missing_resource_is_anomalous(provider: StripePayments, wrong: dict[str, str]) -> None:
    answer = provider.prepare(make_payment(**wrong), idempotency_key=CREATE_KEY)
    assert isinstance(answer, Anomalous)
    assert "resource_missing" in answer.reason
    assert "req_" in answer.reason


@pytest.mark.parametrize("change", ["refunded", "disputed"])
def test_refunded_or_disputed_charge_is_anomalous(
    sandbox: ShippedSandbox, provider: StripePayments, change: str
) -> None:
    ref, charge_id = charge_payment(provider)
    if change == "refunded":
        provider.client.v1.refunds.create({"charge": charge_id})
    else:
        (charged,) = sandbox.stripe.ledger.charges
        sandbox.stripe.ledger.save(replace(charged, disputed=True))

    answer = provider.lookup(ref, make_payment())
    assert isinstance(answer, Anomalous)
    assert change in answer.reason


def add_payment_behind_newer(
    sandbox: ShippedSandbox, provider: StripePayments, *, under: int
) -> tuple[str, str]:
    other, _ = charge_payment(provider)
    (theirs,) = sandbox.stripe.ledger.intents
    for number in range(under):
        newer = replace(theirs, intent_id=f"pi_{number}", metadata={"job_key": f"other:{number}"})
        sandbox.stripe.ledger.save(newer)
    ours = provider.prepare(make_payment(), idempotency_key=IdempotencyKey("create:2"))
    assert isinstance(ours, Prepared)
    return ours.ref, other


def test_other_payment_on_third_page_is_found(
    sandbox: ShippedSandbox, provider: StripePayments
) -> None:
    ref, other = add_payment_behind_newer(sandbox, provider, under=PAGE_SIZE * MAX_PAGES - 2)
    answer = provider.lookup(ref, make_payment())
    assert isinstance(answer, Anomalous)
    assert other in answer.reason


def test_search_reports_its_limit(sandbox: ShippedSandbox, provider: StripePayments) -> None:
    ref, _ = add_payment_behind_newer(sandbox, provider, under=PAGE_SIZE * MAX_PAGES)

    answer = provider.lookup(ref, make_payment())
    assert isinstance(answer, NotFound)
    assert "only the customer's newest 300 payments were searched" in answer.reason
    lists = [one for one in sandbox.ledger.requests if (one.method, one.path) == ("GET", CREATE)]
    assert len(lists) == MAX_PAGES


def read_paths(sandbox: ShippedSandbox) -> list[str]:
    return [one.path for one in sandbox.ledger.requests if one.method == "GET"]


def test_lookup_of_paid_is_one_read(sandbox: ShippedSandbox, provider: StripePayments) -> None:
    ref, charge_id = charge_payment(provider)
    before = len(read_paths(sandbox))
    answer = provider.lookup(ref, make_payment())
    assert isinstance(answer, Succeeded)
    assert (answer.result["charge_id"], read_paths(sandbox)[before:]) == (charge_id, [CREATE])


def test_lookup_of_unpaid_is_two_reads(sandbox: ShippedSandbox, provider: StripePayments) -> None:
    confirm_payment(provider, method="pm_card_chargeDeclined")
    (ours,) = sandbox.stripe.ledger.intents
    before = len(read_paths(sandbox))

    answer = provider.lookup(ours.intent_id, make_payment(method="pm_card_chargeDeclined"))
    assert isinstance(answer, StillOpen)
    assert read_paths(sandbox)[before:] == [CREATE, f"{CREATE}/{ours.intent_id}"]


def test_lookup_reads_intent_when_list_lacks_its_charge(
    provider: StripePayments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refund is seen only on the charge; without it, the list proves nothing."""
    ref, charge_id = charge_payment(provider)
    provider.client.v1.refunds.create({"charge": charge_id})
    intents = provider.client.v1.payment_intents
    listing = intents.list

    def without_charges(asked: Any) -> object:  # noqa: ANN401  # as Stripe types it
        return listing({"customer": asked["customer"], "limit": asked["limit"]})

    monkeypatch.setattr(intents, "list", without_charges)

    answer = provider.lookup(ref, make_payment())

    assert isinstance(answer, Anomalous)
    assert "refunded" in answer.reason


def stripe_world(provider: StripePayments, **order: object) -> InMemoryStack:
    world = InMemoryStack(payments=provider)
    world.add_order(**order)  # type: ignore[arg-type]  # columns of the order
    return world


def test_repeated_confirm_ends_finished(sandbox: ShippedSandbox, provider: StripePayments) -> None:
    world = stripe_world(provider)
    sandbox.faults.add("accept_then_drop", path=CONFIRM)
    sandbox.faults.add("outage", method="GET")
    world.run(charge_message())
    job = world.job(KEY)
    assert job.status is Status.UNKNOWN

    key = IdempotencyKey("confirm:2")
    answer = provider.execute(str(job.provider_ref), make_payment(), idempotency_key=key)

    assert isinstance(answer, Succeeded)
    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert len(sandbox.stripe.ledger.charges) == 1


@pytest.mark.parametrize("path", [CREATE, CONFIRM])
@pytest.mark.parametrize("fault", ["error_before", "error_after"])
def test_error_500_stored_under_key_does_not_livelock(
    sandbox: ShippedSandbox, provider: StripePayments, path: str, fault: str
) -> None:
    world = stripe_world(provider)
    sandbox.faults.add(fault, method="POST", path=path)

    world.run(charge_message())
    job = world.run_until_idle(KEY)

    assert job.status is Status.FINISHED
    assert job.attempts <= 2
    assert len(sandbox.stripe.ledger.charges) == 1


def test_run_at_stripe_pays_order_once(sandbox: ShippedSandbox, provider: StripePayments) -> None:
    world = stripe_world(provider)

    outcomes = [world.run(charge_message()) for _ in range(3)]
    assert is_finished(outcomes[0])
    charged = sandbox.stripe.ledger.charges_for("18452")
    assert [one.charge_id for one in charged] == [world.order()["charge_id"]]
    assert charged[0].metadata["job_key"] == KEY


def test_decline_cancels_payment_first(sandbox: ShippedSandbox, provider: StripePayments) -> None:
    world = stripe_world(provider, payment_method="pm_card_chargeDeclined")

    first = world.run(charge_message())
    assert is_failed(first)
    assert first.result["code"] == "card_declined"
    assert [intent.status for intent in sandbox.stripe.ledger.intents] == ["canceled"]
    world.add_order(payment_method="pm_card_visa", status="payment_failed")
    assert is_finished(world.run(charge_message(attempt=2)))
    assert sorted(intent.status for intent in sandbox.stripe.ledger.intents) == [
        "canceled",
        "succeeded",
    ]


@pytest.mark.parametrize("fault", ["error_before", "error_after", "accept_then_drop", "rate_limit"])
def test_ambiguous_cancel_never_fails_job_before_cancellation(
    sandbox: ShippedSandbox, provider: StripePayments, fault: str
) -> None:
    world = stripe_world(provider, payment_method="pm_card_chargeDeclined")
    sandbox.faults.add(fault, method="POST", path=CANCEL)
    sandbox.faults.add("outage", method="GET")  # the read after the confirmation's error
    world.run(charge_message())
    assert world.job(KEY).status is not Status.FAILED

    job = world.run_until_idle(KEY)
    assert job.status is Status.FAILED
    assert (job.result or {})["code"] == "card_declined"
    assert [intent.status for intent in sandbox.stripe.ledger.intents] == ["canceled"]


def test_unknown_customer_needs_review_at_once(provider: StripePayments) -> None:
    world = stripe_world(provider, payment_customer="cus_missing_1")
    assert isinstance(world.run(charge_message()), NeedsReview)
    assert world.alerts.sent


@pytest.mark.parametrize(("method", "days"), [("pm_sepa", 23), ("pm_processing", None)])
def test_processing_payment_names_the_limit_of_its_method(
    provider: StripePayments, method: str, days: int | None
) -> None:
    asked = make_payment(method=method)
    ref = prepare_payment(provider, method=method)
    limit = None if days is None else timedelta(days=days)

    confirmed = provider.execute(ref, asked, idempotency_key=CONFIRM_KEY, verified=True)

    for outcome in (confirmed, provider.lookup(ref, asked)):
        assert isinstance(outcome, Pending)
        assert outcome.may_take == limit
