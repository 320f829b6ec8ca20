"""What any payment provider must do: each client over its model, in process and over HTTP."""

from dataclasses import replace
from typing import Any

import pytest

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    StillOpen,
    Succeeded,
)
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.money import Money
from oncely.plugins.provider import AnyProvider
from oncely.providers.interfaces import Payment
from tests.conformance.payment_harnesses import (
    PaymentHarness,
    charge_payment,
    execute_payment,
    make_payment,
    prepare_payment,
)
from tests.support.provider_fault import ProviderFault


def prepared(rig: PaymentHarness, kind: str = "good") -> tuple[Payment, str]:
    asked = rig.payment(kind)
    return asked, prepare_payment(rig, asked)


def charged(rig: PaymentHarness, kind: str = "good") -> tuple[Payment, str]:
    asked = rig.payment(kind)
    return asked, charge_payment(rig, asked)


def declined(rig: PaymentHarness) -> tuple[Payment, str, EffectOutcome]:
    """A payment that its provider declines, either on preparation or on execution."""
    asked = rig.payment("declined")
    answer = rig.provider.prepare(asked, idempotency_key=IdempotencyKey("create:1"))
    if isinstance(answer, Prepared):
        return asked, answer.ref, execute_payment(rig, answer.ref, asked)
    found = rig.provider.find(asked)
    assert isinstance(found, Prepared)
    return asked, found.ref, answer


def test_prepare_moves_no_money(rig: PaymentHarness) -> None:
    asked, ref = prepared(rig)
    assert rig.charges() == 0
    assert isinstance(rig.provider.lookup(ref, asked), NotFound)


def test_repeated_prepare_is_one_payment(rig: PaymentHarness, plugin: AnyProvider) -> None:
    says_so = plugin.profile.key_ttl is not None  # Braintree does not mark what it repeats
    asked, key = rig.payment(), IdempotencyKey("create:1")
    first, second = (rig.provider.prepare(asked, idempotency_key=key) for _ in range(2))
    assert isinstance(first, Prepared)
    assert isinstance(second, Prepared)
    assert (first.replayed, second.replayed) == (False, says_so)
    assert second.ref == first.ref


@pytest.mark.parametrize("number", [1, 2])
def test_repeated_execute_charges_once(rig: PaymentHarness, number: int) -> None:
    asked, ref = prepared(rig)

    first = execute_payment(rig, ref, asked)
    again = execute_payment(rig, ref, asked, number=number)

    assert isinstance(first, Succeeded)
    assert isinstance(again, Succeeded)
    assert first.result["charge_id"]
    assert again.result["charge_id"] == first.result["charge_id"]
    assert (first.ref, first.result["amount"], rig.charges()) == (ref, 1250, 1)


def test_lookup_of_declined_payment_says_the_same(rig: PaymentHarness) -> None:
    asked, ref, answer = declined(rig)

    assert isinstance(answer, StillOpen | Declined)
    assert answer.code
    assert isinstance(rig.provider.lookup(ref, asked), type(answer))
    assert rig.charges() == 0


@pytest.mark.parametrize("succeeded", [True, False])
def test_processing_payment_resolves_later(rig: PaymentHarness, *, succeeded: bool) -> None:
    asked, ref = prepared(rig, "processing")
    assert isinstance(execute_payment(rig, ref, asked), Pending)
    rig.complete_payment(ref, succeeded=succeeded)
    expected = Succeeded if succeeded else StillOpen | Declined
    assert isinstance(rig.provider.lookup(ref, asked), expected)


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_execute_without_reply_is_ambiguous(rig: PaymentHarness, fault: ProviderFault) -> None:
    asked, ref = prepared(rig)
    rig.fail_next("execute", fault)

    assert isinstance(execute_payment(rig, ref, asked, verified=True), Ambiguous)
    happened = fault is ProviderFault.TIMEOUT_AFTER
    assert isinstance(rig.provider.lookup(ref, asked), Succeeded if happened else NotFound)
    assert rig.charges() == int(happened)


def test_prepare_without_reply_is_ambiguous_and_moves_no_money(rig: PaymentHarness) -> None:
    rig.fail_next("prepare", ProviderFault.TIMEOUT_AFTER)
    answer = rig.provider.prepare(rig.payment(), idempotency_key=IdempotencyKey("create:1"))
    assert isinstance(answer, Ambiguous)
    assert rig.charges() == 0


@pytest.mark.parametrize("step", ["prepare", "execute"])
def test_rejected_api_key_sends_nothing_and_alarms(rig: PaymentHarness, step: str) -> None:
    asked, ref = prepared(rig)
    rig.fail_next(step, ProviderFault.UNAUTHORIZED)

    answer = (
        rig.provider.prepare(asked, idempotency_key=IdempotencyKey("create:2"))
        if step == "prepare"
        else execute_payment(rig, ref, asked)
    )

    assert isinstance(answer, NotSent)
    assert answer.credentials_rejected
    assert rig.charges() == 0


def test_lookup_is_unreachable_when_request_fails(rig: PaymentHarness) -> None:
    asked, ref = prepared(rig)
    rig.fail_next("lookup", ProviderFault.TIMEOUT_BEFORE)
    failed = rig.provider.lookup(ref, asked)
    assert isinstance(failed, LookupFailed)
    assert not failed.unknown_reference


def test_lookup_is_anomalous_when_amount_differs(rig: PaymentHarness) -> None:
    asked, ref = charged(rig)
    answer = rig.provider.lookup(ref, make_payment(asked.method, amount=9900))
    assert isinstance(answer, Anomalous)
    assert answer.ref == ref


@pytest.mark.parametrize(
    "changes",
    [
        {"job_key": JobKey("payment.charge:order_9")},
        {"deployment": "staging"},
        {"customer": "cus_8"},
        {"money": Money(9900, "eur")},
        {"money": Money(1250, "usd")},
    ],
)
def test_mismatched_payment_is_never_executed(rig: PaymentHarness, changes: Any) -> None:  # noqa: ANN401  # fields
    asked = rig.payment()
    ref = prepare_payment(rig, replace(asked, **changes))
    assert isinstance(execute_payment(rig, ref, asked), Anomalous)
    assert isinstance(rig.provider.lookup(ref, asked), Anomalous)
    assert rig.charges() == 0


@pytest.mark.parametrize("first", ["paid", "not confirmed", "declined"])
def test_second_charge_of_same_job_is_anomalous(first: str, rig: PaymentHarness) -> None:
    if first == "declined":
        ours, ref, _ = declined(rig)
    else:
        ours, ref = prepared(rig)
    if first == "paid":
        execute_payment(rig, ref, ours)
    second = charge_payment(rig, rig.payment(), number=2)

    answer = rig.provider.lookup(ref, ours)
    assert isinstance(answer, Anomalous)
    assert answer.ref == ref
    assert second in answer.reason


def test_uncharged_other_payment_does_not_affect_lookup(rig: PaymentHarness) -> None:
    asked, ref = charged(rig)
    prepare_payment(rig, asked, number=2)
    assert isinstance(rig.provider.lookup(ref, asked), Succeeded)


@pytest.mark.parametrize(
    "changes", [{"job_key": JobKey("payment.charge:order_2")}, {"deployment": "staging"}]
)
def test_payment_of_other_job_is_ignored(rig: PaymentHarness, changes: Any) -> None:  # noqa: ANN401  # fields
    asked, ref = charged(rig)
    charge_payment(rig, replace(asked, **changes), number=2)
    assert isinstance(rig.provider.lookup(ref, asked), Succeeded)
    assert rig.charges() == 2


@pytest.mark.parametrize("kind", ["good", "declined"])
@pytest.mark.parametrize("verified", [True, False])
def test_closed_payment_never_executes(rig: PaymentHarness, kind: str, *, verified: bool) -> None:
    asked, ref, *_ = declined(rig) if kind == "declined" else prepared(rig)

    answers = [
        rig.provider.close(ref, asked, verified=verified),
        rig.provider.close(ref, asked),
        execute_payment(rig, ref, asked, number=2, verified=True),
        rig.provider.lookup(ref, asked),
        rig.provider.lookup_closed(ref, job_key=asked.job_key),
    ]

    assert ([type(answer) for answer in answers], rig.charges()) == ([Declined] * 5, 0)


@pytest.mark.parametrize(("kind", "outcome"), [("good", Succeeded), ("processing", Pending)])
@pytest.mark.parametrize("verified", [True, False])
def test_close_of_executed_payment_returns_its_outcome(
    rig: PaymentHarness, kind: str, outcome: type, *, verified: bool
) -> None:
    asked, ref = charged(rig, kind)
    assert isinstance(rig.provider.close(ref, asked, verified=verified), outcome)
    assert isinstance(rig.provider.lookup_closed(ref, job_key=asked.job_key), outcome)


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_close_without_reply_is_ambiguous(rig: PaymentHarness, fault: ProviderFault) -> None:
    asked, ref = prepared(rig)
    rig.fail_next("close", fault)
    assert isinstance(rig.provider.close(ref, asked, verified=True), Ambiguous)
    happened = fault is ProviderFault.TIMEOUT_AFTER
    assert isinstance(rig.provider.lookup(ref, asked), Declined if happened else NotFound)


def test_payment_of_other_job_is_never_closed(rig: PaymentHarness) -> None:
    asked = rig.payment()
    theirs = replace(asked, job_key=JobKey("payment.charge:order_9"))
    ref = prepare_payment(rig, theirs)

    assert isinstance(rig.provider.close(ref, asked), Anomalous)
    assert isinstance(rig.provider.lookup(ref, theirs), NotFound)
    assert isinstance(rig.provider.lookup_closed(ref, job_key=asked.job_key), NotFound)


@pytest.mark.parametrize("kind", ["good", "processing"])
def test_closed_payment_is_anomalous_after_other_charge(rig: PaymentHarness, kind: str) -> None:
    asked, ref = prepared(rig)
    rig.provider.close(ref, asked)
    second = charge_payment(rig, rig.payment(kind), number=2)

    answer = rig.provider.lookup_closed(ref, job_key=asked.job_key)
    assert isinstance(answer, Anomalous)
    assert second in answer.reason
    if kind == "processing":
        rig.complete_payment(second, succeeded=True)
    rig.refund(second)
    assert isinstance(rig.provider.lookup_closed(ref, job_key=asked.job_key), Declined)


def test_invented_reference_is_unknown_and_not_a_failure_to_answer(rig: PaymentHarness) -> None:
    asked = rig.payment()
    found = rig.provider.lookup("pi_invented", asked)
    assert isinstance(found, LookupFailed)
    assert found.unknown_reference
    closed = rig.provider.lookup_closed("pi_invented", job_key=asked.job_key)
    assert isinstance(closed, NotFound)
    assert "pi_invented" in closed.reason


def test_refunded_second_charge_does_not_affect_lookup(rig: PaymentHarness) -> None:
    asked, ref = charged(rig)
    second = charge_payment(rig, asked, number=2)
    assert isinstance(rig.provider.lookup(ref, asked), Anomalous)
    rig.refund(second)
    assert isinstance(rig.provider.lookup(ref, asked), Succeeded)


def test_chargeable_payment_is_still_open(rig: PaymentHarness) -> None:
    asked, ref = prepared(rig)
    assert isinstance(rig.provider.lookup_closed(ref, job_key=asked.job_key), StillOpen)


def test_declined_payment_is_open_until_its_provider_says_otherwise(rig: PaymentHarness) -> None:
    asked, ref, answer = declined(rig)
    assert isinstance(rig.provider.lookup_closed(ref, job_key=asked.job_key), type(answer))
