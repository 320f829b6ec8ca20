"""The Braintree adapter against the sandbox: every status, and every way to lose a response."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from pydantic import ValidationError

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    StillOpen,
    Succeeded,
)
from oncely.core.errors import NotConfiguredError
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.money import Money
from oncely.core.table_guard import MAX_INVOCATION_TIME
from oncely.plugins.provider import ProviderAccess
from oncely.providers.braintree import BRAINTREE
from oncely.providers.braintree.gateway import connect_gateway, parse_api_key
from oncely.providers.braintree.payments import BraintreePayments
from oncely.providers.braintree.plugin import SEARCH_LAG, BraintreeSettings
from oncely.providers.braintree.responses import order_id_of
from oncely.providers.braintree.sandbox import (
    MISSING_TOKEN,
    UNREACHABLE_TOKEN,
    BraintreeSandbox,
    RecordedTransaction,
)
from oncely.providers.interfaces import Payment
from oncely.testing.sandbox import Sandbox
from tests.conformance.payment_harnesses import make_payment

_NUMBERS = count(1)


def new_key() -> IdempotencyKey:
    """A key that no other request has."""
    return IdempotencyKey(f"key:{next(_NUMBERS)}")


class Rig:
    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        part = sandbox.providers["braintree"]
        assert isinstance(part, BraintreeSandbox)
        self.braintree = part
        self.settings = BraintreeSettings.model_validate({**part.settings, "api_base": sandbox.url})
        client = BRAINTREE.connect(ProviderAccess(settings=self.settings, api_key=part.api_key))
        assert isinstance(client, BraintreePayments)
        self.client = client

    def payment(self, method: str = "bt_visa", **changes: Any) -> Payment:  # noqa: ANN401  # fields
        return replace(make_payment(method), deployment="dev", **changes)

    def prepare(self, payment: Payment) -> str:
        made = self.client.prepare(payment, idempotency_key=new_key())
        assert isinstance(made, Prepared)
        return made.ref

    def status(self, ref: str) -> str:
        found = self.braintree.ledger.find(RecordedTransaction, ref)
        assert found is not None
        return found.status


@pytest.fixture
def rig(socket_enabled: None) -> Iterator[Rig]:
    with Sandbox([BRAINTREE]) as sandbox:
        yield Rig(sandbox)


@pytest.mark.parametrize(
    ("status", "outcome", "closed"),
    [
        ("authorizing", Pending, Pending),
        ("authorized", NotFound, StillOpen),
        ("authorization_expired", Declined, Declined),
        ("processor_declined", Declined, Declined),
        ("gateway_rejected", Declined, Declined),
        ("failed", Declined, Declined),
        ("voided", Declined, Declined),
        ("submitted_for_settlement", Succeeded, Succeeded),
        ("settling", Succeeded, Succeeded),
        ("settled", Succeeded, Succeeded),
        ("settlement_confirmed", Succeeded, Succeeded),
        ("settlement_pending", Pending, Pending),
        ("settlement_declined", Declined, Declined),
        ("settlement_failed", Declined, Declined),
        ("unheard_of", Anomalous, Anomalous),
    ],
)
def test_every_status_has_an_outcome(rig: Rig, status: str, outcome: type, closed: type) -> None:
    asked = rig.payment()
    ref = rig.prepare(asked)
    rig.braintree.set_status(ref, status)

    found = rig.client.lookup_closed(ref, job_key=asked.job_key, deployment="dev")

    assert type(rig.client.lookup(ref, asked)) is outcome
    assert type(found) is closed


def test_statuses_of_the_sdk_are_all_known() -> None:
    from braintree import Transaction  # type: ignore[import-untyped]  # noqa: PLC0415  # after the warnings of its import

    from oncely.providers.braintree.responses import _CHARGED, _OPEN, _UNDECIDED  # noqa: PLC0415

    ended = {"authorization_expired", "failed", "gateway_rejected", "processor_declined"}
    ended |= {"settlement_declined", "settlement_failed", "voided"}
    theirs = {value for name, value in vars(Transaction.Status).items() if not name.startswith("_")}
    assert theirs == _CHARGED | _OPEN | _UNDECIDED | ended


@pytest.mark.parametrize(
    ("token", "code", "kind"),
    [
        ("bt_insufficient_funds", "processor_declined", "soft_declined"),
        ("bt_stolen_card", "processor_declined", "hard_declined"),
        ("bt_fraud", "gateway_rejected_fraud", None),
        ("bt_wrong_cvv", "gateway_rejected_cvv", None),
        (UNREACHABLE_TOKEN, "failed", None),
    ],
)
def test_decline_on_authorization_ends_the_job(
    rig: Rig, token: str, code: str, kind: str | None
) -> None:
    answer = rig.client.prepare(rig.payment(token), idempotency_key=new_key())
    assert isinstance(answer, Declined)
    assert (answer.code, answer.result.get("decline_type")) == (code, kind)


def test_unknown_payment_method_needs_review(rig: Rig) -> None:
    answer = rig.client.prepare(rig.payment(MISSING_TOKEN), idempotency_key=new_key())
    assert isinstance(answer, Anomalous)
    assert "Payment method token is invalid. (91518)" in answer.reason


def test_currency_without_merchant_account_sends_nothing(rig: Rig) -> None:
    asked = rig.payment(money=Money(1250, "gbp"))
    answer = rig.client.prepare(asked, idempotency_key=new_key())
    assert isinstance(answer, Anomalous)
    assert "no merchant account takes gbp" in answer.reason
    assert rig.sandbox.ledger.requests == ()


def test_authorization_in_another_currency_is_never_submitted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.braintree, "currencies", {"oncely_eur": "usd"})
    answer = rig.client.prepare(rig.payment(), idempotency_key=new_key())
    assert isinstance(answer, Anomalous)
    assert "its currency is usd, not eur" in answer.reason
    (made,) = rig.braintree.ledger.transactions
    executed = rig.client.execute(made.transaction_id, rig.payment(), idempotency_key=new_key())
    assert isinstance(executed, Anomalous)
    assert rig.status(made.transaction_id) == "authorized"


@pytest.mark.parametrize("fault", ["accept_then_drop", "error_after", "garbled", "truncated"])
def test_authorization_without_response_is_found_and_reused(rig: Rig, fault: str) -> None:
    asked = rig.payment()
    rig.sandbox.faults.add(fault, **rig.braintree.requests["prepare"])

    lost = rig.client.prepare(asked, idempotency_key=new_key())
    found = rig.client.find(asked)

    assert isinstance(lost, Ambiguous)
    assert isinstance(found, Prepared)
    done = rig.client.execute(found.ref, asked, idempotency_key=new_key())
    assert isinstance(done, Succeeded)
    assert len(rig.braintree.ledger.transactions) == 1


@pytest.mark.parametrize("fault", ["accept_then_drop", "error_after", "garbled", "truncated"])
def test_submission_without_response_is_read_from_the_transaction(rig: Rig, fault: str) -> None:
    asked = rig.payment()
    ref = rig.prepare(asked)
    rig.sandbox.faults.add(fault, **rig.braintree.requests["execute"])
    assert isinstance(
        rig.client.execute(ref, asked, idempotency_key=new_key(), verified=True), Succeeded
    )


def test_stale_search_does_not_prove_absence(rig: Rig) -> None:
    asked = rig.payment()
    rig.prepare(asked)
    rig.braintree.search_lag = timedelta(minutes=1)
    found = rig.client.find(asked)
    assert isinstance(found, NotFound)
    assert not found.conclusive


def test_duplicate_rejection_is_no_decline(rig: Rig) -> None:
    asked = rig.payment()
    rig.braintree.checks_duplicates = True
    ref = rig.prepare(asked)

    assert isinstance(rig.client.prepare(asked, idempotency_key=new_key()), Ambiguous)
    assert rig.client.find(asked) == Prepared(ref)
    assert isinstance(rig.client.execute(ref, asked, idempotency_key=new_key()), Succeeded)


def test_other_authorization_is_voided_before_the_saved_one_is_submitted(rig: Rig) -> None:
    asked = rig.payment()
    stray, ref = rig.prepare(asked), rig.prepare(asked)

    assert isinstance(rig.client.execute(ref, asked, idempotency_key=new_key()), Succeeded)
    assert (rig.status(stray), rig.status(ref)) == ("voided", "submitted_for_settlement")


def test_nothing_is_submitted_while_another_authorization_cannot_be_voided(rig: Rig) -> None:
    asked = rig.payment()
    rig.prepare(asked)
    ref = rig.prepare(asked)
    rig.sandbox.faults.add("outage", **rig.braintree.requests["close"])

    assert isinstance(rig.client.execute(ref, asked, idempotency_key=new_key()), NotSent)
    assert rig.status(ref) == "authorized"


def test_declined_job_with_another_authorization_is_closed_first(rig: Rig) -> None:
    asked, declining = rig.payment(), rig.payment("bt_stolen_card")
    stray = rig.prepare(asked)
    rig.client.prepare(declining, idempotency_key=new_key())
    ref = rig.client.find(asked)
    assert isinstance(ref, Prepared)

    assert ref.ref != stray
    assert isinstance(rig.client.lookup(ref.ref, asked), StillOpen)
    assert isinstance(rig.client.close(ref.ref, asked), Declined)
    assert rig.status(stray) == "voided"


def test_submitted_transaction_is_never_voided(rig: Rig) -> None:
    asked = rig.payment()
    ref = rig.prepare(asked)
    rig.client.execute(ref, asked, idempotency_key=new_key(), verified=True)
    assert isinstance(rig.client.close(ref, asked, verified=True), Succeeded)
    assert rig.status(ref) == "submitted_for_settlement"


@pytest.mark.parametrize(("share", "done"), [(1, False), (2, True)])
def test_refund_is_no_longer_a_charge_only_if_it_is_full(
    rig: Rig, share: int, *, done: bool
) -> None:
    asked = rig.payment()
    ref = rig.prepare(asked)
    rig.client.execute(ref, asked, idempotency_key=new_key(), verified=True)
    rig.braintree.refund(ref, share=share)

    found = rig.client.lookup(ref, asked)
    closed = rig.client.lookup_closed(ref, job_key=asked.job_key, deployment="dev")

    assert isinstance(found, Anomalous)
    assert found.effect_done is done
    assert isinstance(closed, Succeeded if done else Declined)


@pytest.mark.parametrize(
    "status", ["failed", "processor_declined", "settlement_declined", "voided"]
)
def test_refund_that_gave_nothing_back_leaves_a_charge(rig: Rig, status: str) -> None:
    asked = rig.payment()
    ref = rig.prepare(asked)
    rig.client.execute(ref, asked, idempotency_key=new_key(), verified=True)
    rig.braintree.refund(ref)
    paid = rig.braintree.ledger.find(RecordedTransaction, ref)
    assert paid is not None
    rig.braintree.set_status(paid.refund_ids[0], status)

    closed = rig.client.lookup_closed(ref, job_key=asked.job_key, deployment="dev")

    assert isinstance(closed, Succeeded)
    found = rig.client.lookup(ref, asked)
    assert isinstance(found, Anomalous)
    assert found.effect_done


@pytest.mark.parametrize("status", ["submitted_for_settlement", "settled", "settlement_pending"])
def test_second_transaction_of_a_charged_job_is_not_submitted(rig: Rig, status: str) -> None:
    asked = rig.payment()
    charged, ref = rig.prepare(asked), rig.prepare(asked)
    rig.braintree.set_status(charged, status)

    outcome = rig.client.execute(ref, asked, idempotency_key=new_key())

    assert isinstance(outcome, Anomalous)
    assert charged in outcome.reason
    assert rig.status(ref) == "authorized"


@pytest.mark.parametrize("status", ["authorized", "voided", "processor_declined"])
def test_job_with_another_charge_is_not_closed(rig: Rig, status: str) -> None:
    asked = rig.payment()
    charged, ref = rig.prepare(asked), rig.prepare(asked)
    rig.braintree.set_status(charged, "settled")
    rig.braintree.set_status(ref, status)

    outcome = rig.client.close(ref, asked)

    assert isinstance(outcome, Anomalous)
    assert charged in outcome.reason
    assert isinstance(rig.client.execute(ref, asked, idempotency_key=new_key()), Anomalous)
    rig.braintree.refund(charged)
    assert isinstance(rig.client.close(ref, asked), Declined)


def test_refused_connection_sends_nothing() -> None:
    settings = BraintreeSettings.model_validate(
        {**BraintreeSandbox.settings, "api_base": "http://127.0.0.1:9"}
    )
    gateway = connect_gateway(BraintreeSandbox.api_key, settings)
    client = BraintreePayments(gateway=gateway, accounts=settings.accounts, scope="")
    asked = make_payment("bt_visa")
    assert isinstance(client.prepare(asked, idempotency_key=new_key()), NotSent)
    assert isinstance(client.find(asked), LookupFailed)


@pytest.mark.parametrize("fault", ["accept_then_hang", "accept_then_trickle"])
def test_slow_response_ends_at_the_deadline(rig: Rig, fault: str) -> None:
    gateway = connect_gateway(
        rig.braintree.api_key, rig.settings, request_timeout=timedelta(seconds=0.4)
    )
    client = replace(rig.client, gateway=gateway)
    held = rig.sandbox.faults.add(fault, **rig.braintree.requests["prepare"])
    answer = client.prepare(rig.payment(), idempotency_key=new_key())
    held.release()
    assert isinstance(answer, Ambiguous)


def test_no_request_uses_a_connection_that_was_idle(rig: Rig) -> None:
    asked = rig.payment()
    ref = rig.prepare(asked)
    rig.sandbox.generation += 1  # whoever holds an older connection gets no response
    assert isinstance(
        rig.client.execute(ref, asked, idempotency_key=new_key(), verified=True), Succeeded
    )


def test_order_id_is_unique_to_deployment_and_job() -> None:
    key = JobKey("payment.charge:order_18452")
    assert order_id_of("dev", key) == f"dev:{key}"
    assert order_id_of(None, key) != order_id_of("dev", key)
    long = JobKey(f"payment.charge:order_{'x' * 200}")
    assert len(order_id_of("dev", long)) <= 127  # PayPal accepts no longer ones
    assert order_id_of("dev", long) != order_id_of("dev", JobKey(f"{long}y"))


def test_api_key_check_reads_each_merchant_account(rig: Rig) -> None:
    accepted = BRAINTREE.check_api_key(rig.braintree.api_key, rig.settings)
    rejected = BRAINTREE.check_api_key("other:key", rig.settings)
    swapped = rig.settings.model_copy(update={"merchant_accounts": "eur=oncely_usd"})
    currency = BRAINTREE.check_api_key(rig.braintree.api_key, swapped)
    malformed = BRAINTREE.check_api_key("no colon", rig.settings)

    assert accepted is not None
    assert accepted.accepted is True
    for check, reason in (
        (rejected, "AuthenticationError"),
        (currency, "the merchant account oncely_usd takes usd, not eur"),
        (malformed, "<public key>:<private key>"),
    ):
        assert check is not None
        assert (check.accepted, reason in check.reason) == (False, True)


def test_merchant_without_accounts_is_refused_at_synthesis() -> None:
    with pytest.raises(ValidationError, match="merchant_id needs merchant_accounts"):
        BraintreeSettings(merchant_id="shop")


def test_restored_table_opens_after_the_search_is_complete() -> None:
    # After a restore, a worker treats a search without a result as proof.
    assert SEARCH_LAG < MAX_INVOCATION_TIME


def test_malformed_secret_is_misconfiguration() -> None:
    with pytest.raises(NotConfiguredError, match="<public key>:<private key>"):
        parse_api_key("only one part")


@pytest.mark.parametrize(
    ("reference", "scope", "url"),
    [
        ("abc123", "braintree:sandbox:shop", "https://sandbox.braintreegateway.com/merchants/shop"),
        ("abc123", "braintree:production:shop", "https://www.braintreegateway.com/merchants/shop"),
        ("../x", "braintree:sandbox:shop", None),
        ("abc123", "stripe:test:abc", None),
    ],
)
def test_console_link_is_built_from_checked_parts(
    reference: str, scope: str, url: str | None
) -> None:
    for is_dispute, page in ((False, "transactions"), (True, "disputes")):
        found = BRAINTREE.console_url(
            reference, key_scope=scope, settings=BraintreeSettings(), is_dispute=is_dispute
        )
        assert found == (None if url is None else f"{url}/{page}/abc123")
