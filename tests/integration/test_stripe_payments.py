"""The Stripe adapter against every way in which an answer can go wrong, over real sockets."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import stripe

from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    EffectOutcome,
    NotFound,
    NotSent,
    Prepared,
    StillOpen,
    Succeeded,
)
from oncely.domain.keys import IdempotencyKey, JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.money import Money
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.payments import (
    MAX_PAGES,
    PAGE_SIZE,
    StripePayments,
    stripe_client,
)
from oncely.run.outcomes import Failed, Finished, NeedsReview
from oncely.testing.sandbox import ProviderSandbox
from oncely_local.engine import free_port
from tests.support.in_memory_stack import InMemoryStack, charge_message

CREATE = "/v1/payment_intents"
CONFIRM = "/v1/payment_intents/*/confirm"
CANCEL = "/v1/payment_intents/*/cancel"
KEY = "payment.charge:order_18452"


@pytest.fixture
def sandbox() -> Iterator[ProviderSandbox]:
    with ProviderSandbox() as running:
        yield running


@pytest.fixture
def provider(sandbox: ProviderSandbox) -> StripePayments:
    return StripePayments.from_api_key("sk_test_1", api_base=sandbox.url)


def make_payment(**changes: str) -> Payment:
    return Payment(
        money=Money(1250, "eur"),
        customer=changes.get("customer", "cus_7"),
        method=changes.get("method", "pm_card_visa"),
        job_key=JobKey(KEY),
        order_id="18452",
    )


def confirm_payment(provider: StripePayments, asked: Payment) -> EffectOutcome:
    prepared = provider.prepare(asked, idempotency_key=IdempotencyKey("create:1"))
    assert isinstance(prepared, Prepared)
    return provider.execute(
        prepared.ref, asked, idempotency_key=IdempotencyKey("confirm:1"), verified=True
    )


@pytest.mark.parametrize(
    ("fault", "expected", "charges"),
    [
        # Not performed, and Stripe says so.
        ("rate_limit", NotSent, 0),
        ("unauthorized", NotSent, 0),
        # Performed: the intent's own state, read back, is the answer.
        ("accept_then_drop", Succeeded, 1),
        ("error_after", Succeeded, 1),
        ("garbled", Succeeded, 1),
        ("truncated", Succeeded, 1),
        # Not performed, but nobody can know that yet.
        ("error_before", Ambiguous, 0),
        ("drop_before", Ambiguous, 0),
        ("conflict", Ambiguous, 0),
        ("outage", Ambiguous, 0),
    ],
)
def test_confirm_error_returns_state_of_intent(
    sandbox: ProviderSandbox, provider: StripePayments, fault: str, expected: type, charges: int
) -> None:
    sandbox.faults.add(fault, path=CONFIRM)

    answer = confirm_payment(provider, make_payment())

    assert isinstance(answer, expected)
    assert len(sandbox.ledger.charges) == charges


def test_changed_payment_is_charged_at_most_requested_amount(
    sandbox: ProviderSandbox, provider: StripePayments
) -> None:
    asked = make_payment()
    prepared = provider.prepare(asked, idempotency_key=IdempotencyKey("create:1"))
    assert isinstance(prepared, Prepared)
    (intent,) = sandbox.ledger.intents
    sandbox.ledger.save(replace(intent, amount=9900), at=intent.created)

    provider.execute(
        prepared.ref, asked, idempotency_key=IdempotencyKey("confirm:1"), verified=True
    )

    assert [one.amount for one in sandbox.ledger.charges] == [1250]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("rate_limit", NotSent),
        ("unauthorized", NotSent),
        ("accept_then_drop", Ambiguous),
        ("error_before", Ambiguous),
        ("error_after", Ambiguous),
        ("garbled", Ambiguous),
        ("truncated", Ambiguous),
        ("drop_before", Ambiguous),
        ("conflict", Ambiguous),
        ("outage", Ambiguous),
    ],
)
def test_create_error_is_ambiguous_unless_request_was_rejected(
    sandbox: ProviderSandbox, provider: StripePayments, fault: str, expected: type
) -> None:
    sandbox.faults.add(fault, method="POST", path=CREATE)

    answer = provider.prepare(make_payment(), idempotency_key=IdempotencyKey("create:1"))

    assert isinstance(answer, expected)
    assert sandbox.ledger.charges == ()


def test_confirm_is_ambiguous_when_reply_and_read_hang(
    sandbox: ProviderSandbox,
) -> None:
    client = stripe_client("sk_test_1", api_base=sandbox.url)
    hurried = stripe.StripeClient(
        "sk_test_1",
        base_addresses={"api": sandbox.url},
        max_network_retries=0,
        http_client=stripe.RequestsClient(timeout=(1, 0.3)),
    )
    prepared = StripePayments(client).prepare(
        make_payment(), idempotency_key=IdempotencyKey("create:1")
    )
    assert isinstance(prepared, Prepared)
    sandbox.faults.add("accept_then_hang", path=CONFIRM, seconds=2)
    sandbox.faults.add("accept_then_hang", method="GET", seconds=2)

    answer = StripePayments(hurried).execute(
        prepared.ref, make_payment(), idempotency_key=IdempotencyKey("confirm:1"), verified=True
    )

    assert isinstance(answer, Ambiguous)
    assert len(sandbox.ledger.charges) == 1


@pytest.mark.parametrize("host", ["127.0.0.1:{closed}", "no-such-host.invalid:80"])
def test_failed_connection_sends_nothing(host: str) -> None:
    base = "http://" + host.format(closed=free_port())

    answer = StripePayments.from_api_key("sk_test_1", api_base=base).prepare(
        make_payment(), idempotency_key=IdempotencyKey("create:1")
    )

    assert isinstance(answer, NotSent)


def test_library_never_retries_effect(sandbox: ProviderSandbox, provider: StripePayments) -> None:
    sandbox.faults.add("drop_before", path=CONFIRM, times=None)
    sandbox.faults.add("error_before", method="POST", path=CREATE, key_contains="broken")

    confirm_payment(provider, make_payment())
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
def test_decline_leaves_payment_open_with_its_code(
    provider: StripePayments, method: str, code: str
) -> None:
    answer = confirm_payment(provider, make_payment(method=method))

    assert isinstance(answer, StillOpen)
    assert answer.code == code
    # The reason outlives the intent: it is what a failed job says after a worker canceled it.
    assert "open" not in answer.reason


@pytest.mark.parametrize("wrong", [{"customer": "cus_missing_1"}, {"method": "pm_missing"}])
def test_request_with_missing_resource_is_anomalous(
    provider: StripePayments, wrong: dict[str, str]
) -> None:
    answer = provider.prepare(make_payment(**wrong), idempotency_key=IdempotencyKey("create:1"))

    assert isinstance(answer, Anomalous)
    assert "resource_missing" in answer.reason
    assert "req_" in answer.reason


def test_refunded_charge_is_anomalous(sandbox: ProviderSandbox, provider: StripePayments) -> None:
    done = confirm_payment(provider, make_payment())
    assert isinstance(done, Succeeded)
    stripe_client("sk_test_1", api_base=sandbox.url).v1.refunds.create(
        {"charge": str(done.result["charge_id"])}
    )

    answer = provider.lookup(str(done.ref), make_payment())

    assert isinstance(answer, Anomalous)
    assert "refunded" in answer.reason


def test_disputed_charge_is_anomalous(sandbox: ProviderSandbox, provider: StripePayments) -> None:
    done = confirm_payment(provider, make_payment())
    assert isinstance(done, Succeeded)
    (charged,) = sandbox.ledger.charges
    sandbox.ledger.save(replace(charged, disputed=True), at=charged.created)

    answer = provider.lookup(str(done.ref), make_payment())

    assert isinstance(answer, Anomalous)
    assert "disputed" in answer.reason


def add_payment_behind_newer(
    sandbox: ProviderSandbox, provider: StripePayments, *, under: int
) -> tuple[str, str]:
    """A paid intent of our job, one more below so many newer ones; gives the ids of both."""
    other = confirm_payment(provider, make_payment())
    assert isinstance(other, Succeeded)
    (theirs,) = sandbox.ledger.intents
    for number in range(under):
        newer = replace(theirs, intent_id=f"pi_{number}", metadata={"job_key": f"other:{number}"})
        sandbox.ledger.save(newer, at=theirs.created)
    ours = provider.prepare(make_payment(), idempotency_key=IdempotencyKey("create:2"))
    assert isinstance(ours, Prepared)
    return ours.ref, str(other.ref)


def test_other_payment_of_same_job_is_found_on_third_page(
    sandbox: ProviderSandbox, provider: StripePayments
) -> None:
    ref, other = add_payment_behind_newer(sandbox, provider, under=PAGE_SIZE * MAX_PAGES - 2)

    answer = provider.lookup(ref, make_payment())

    assert isinstance(answer, Anomalous)
    assert other in answer.reason


def test_search_that_reaches_its_limit_says_so(
    sandbox: ProviderSandbox, provider: StripePayments
) -> None:
    ref, _ = add_payment_behind_newer(sandbox, provider, under=PAGE_SIZE * MAX_PAGES)

    answer = provider.lookup(ref, make_payment())

    assert isinstance(answer, NotFound)
    assert "only the customer's newest 300 payments were searched" in answer.reason
    lists = [one for one in sandbox.ledger.requests if (one.method, one.path) == ("GET", CREATE)]
    assert len(lists) == MAX_PAGES


def read_paths(sandbox: ProviderSandbox) -> list[str]:
    return [one.path for one in sandbox.ledger.requests if one.method == "GET"]


def test_lookup_of_paid_charge_takes_one_read(
    sandbox: ProviderSandbox, provider: StripePayments
) -> None:
    done = confirm_payment(provider, make_payment())
    assert isinstance(done, Succeeded)
    before = len(read_paths(sandbox))

    answer = provider.lookup(str(done.ref), make_payment())

    assert isinstance(answer, Succeeded)
    assert answer.result["charge_id"] == done.result["charge_id"]
    assert read_paths(sandbox)[before:] == [CREATE]


def test_lookup_reads_intent_when_list_does_not_show_it_paid(
    sandbox: ProviderSandbox, provider: StripePayments
) -> None:
    declined = make_payment(method="pm_card_chargeDeclined")
    confirm_payment(provider, declined)
    (ours,) = sandbox.ledger.intents
    before = len(read_paths(sandbox))

    answer = provider.lookup(ours.intent_id, declined)

    assert isinstance(answer, StillOpen)
    assert read_paths(sandbox)[before:] == [CREATE, f"{CREATE}/{ours.intent_id}"]


def test_lookup_reads_intent_when_list_lacks_its_charge(
    sandbox: ProviderSandbox, provider: StripePayments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refund is seen only on the charge; without it, the list proves nothing."""
    done = confirm_payment(provider, make_payment())
    assert isinstance(done, Succeeded)
    provider.client.v1.refunds.create({"charge": str(done.result["charge_id"])})
    listing = provider.client.v1.payment_intents.list
    monkeypatch.setattr(
        provider.client.v1.payment_intents,
        "list",
        lambda asked: listing({"customer": asked["customer"], "limit": asked["limit"]}),
    )

    answer = provider.lookup(str(done.ref), make_payment())

    assert isinstance(answer, Anomalous)
    assert "refunded" in answer.reason


def stripe_world(
    sandbox: ProviderSandbox, provider: StripePayments, **order: object
) -> InMemoryStack:
    world = InMemoryStack(payments=provider)
    world.add_order(**order)  # type: ignore[arg-type]  # columns of the order
    return world


def test_repeated_confirm_of_paid_intent_ends_finished(
    sandbox: ProviderSandbox, provider: StripePayments
) -> None:
    world = stripe_world(sandbox, provider)
    sandbox.faults.add("accept_then_drop", path=CONFIRM)
    sandbox.faults.add("outage", method="GET")
    world.run(charge_message())
    job = world.job(KEY)
    assert job.status is Status.UNKNOWN

    answer = provider.execute(
        str(job.provider_ref), make_payment(), idempotency_key=IdempotencyKey("confirm:2")
    )
    job = world.run_until_idle(KEY)

    assert isinstance(answer, Succeeded)
    assert job.status is Status.FINISHED
    assert len(sandbox.ledger.charges) == 1


@pytest.mark.parametrize("path", [CREATE, CONFIRM])
@pytest.mark.parametrize("fault", ["error_before", "error_after"])
def test_error_500_stored_under_key_does_not_livelock(
    sandbox: ProviderSandbox, provider: StripePayments, path: str, fault: str
) -> None:
    world = stripe_world(sandbox, provider)
    sandbox.faults.add(fault, method="POST", path=path)

    world.run(charge_message())
    job = world.run_until_idle(KEY)

    assert job.status is Status.FINISHED
    assert job.attempts <= 2
    assert len(sandbox.ledger.charges) == 1


def test_run_at_stripe_pays_order_once(sandbox: ProviderSandbox, provider: StripePayments) -> None:
    world = stripe_world(sandbox, provider)

    outcomes = [world.run(charge_message()) for _ in range(3)]

    assert isinstance(outcomes[0], Finished)
    charged = sandbox.ledger.charges_for("18452")
    assert [one.charge_id for one in charged] == [world.order()["charge_id"]]
    assert charged[0].metadata["job_key"] == KEY


def test_decline_cancels_payment_before_job_fails(
    sandbox: ProviderSandbox, provider: StripePayments
) -> None:
    world = stripe_world(sandbox, provider, payment_method="pm_card_chargeDeclined")

    first = world.run(charge_message())

    assert isinstance(first, Failed)
    assert first.result["code"] == "card_declined"
    assert [intent.status for intent in sandbox.ledger.intents] == ["canceled"]
    world.add_order(payment_method="pm_card_visa", status="payment_failed")
    assert isinstance(world.run(charge_message(attempt=2)), Finished)
    assert sorted(intent.status for intent in sandbox.ledger.intents) == ["canceled", "succeeded"]


@pytest.mark.parametrize("fault", ["error_before", "error_after", "accept_then_drop", "rate_limit"])
def test_ambiguous_cancel_never_fails_job_before_cancellation(
    sandbox: ProviderSandbox, provider: StripePayments, fault: str
) -> None:
    world = stripe_world(sandbox, provider, payment_method="pm_card_chargeDeclined")
    sandbox.faults.add(fault, method="POST", path=CANCEL)
    sandbox.faults.add("outage", method="GET")  # the read after the confirmation's error
    world.run(charge_message())
    assert world.job(KEY).status is not Status.FAILED

    job = world.run_until_idle(KEY)

    assert job.status is Status.FAILED
    assert (job.result or {})["code"] == "card_declined"
    assert [intent.status for intent in sandbox.ledger.intents] == ["canceled"]


def test_unknown_customer_needs_review_at_once(
    sandbox: ProviderSandbox, provider: StripePayments
) -> None:
    world = stripe_world(sandbox, provider, payment_customer="cus_missing_1")

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert world.alerts.sent
