"""A payment that a restored row has lost is found by deployment and job key, and no other one."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from oncely.domain.effect_outcomes import Anomalous, LookupFailed, NotFound, Prepared
from oncely.domain.keys import JobKey
from oncely.testing.provider_fault import ProviderFault
from tests.conformance.payment_harnesses import (
    PaymentHarness,
    execute_payment,
    payment_harness,
    prepare_payment,
)


@pytest.fixture(params=["fake", "stripe"])
def harness(request: pytest.FixtureRequest) -> Iterator[PaymentHarness]:
    with payment_harness(request.param) as made:
        yield made


def test_absence_is_conclusive_when_customer_has_no_payment(harness: PaymentHarness) -> None:
    found = harness.provider.find(harness.payment())

    assert isinstance(found, NotFound)
    assert found.conclusive


def test_prepared_payment_is_found(harness: PaymentHarness) -> None:
    ref = prepare_payment(harness, harness.payment())

    assert harness.provider.find(harness.payment()) == Prepared(ref)


def test_payment_of_other_job_or_deployment_is_not_found(harness: PaymentHarness) -> None:
    asked = replace(harness.payment(), deployment="dev")
    prepare_payment(harness, replace(asked, job_key=JobKey("payment.charge:order_9")))
    prepare_payment(harness, replace(asked, deployment="staging"), number=2)
    prepare_payment(harness, replace(asked, deployment=None), number=3)

    assert isinstance(harness.provider.find(asked), NotFound)


@pytest.mark.parametrize("paid", [1, 2])
def test_charged_payment_is_found_among_several(harness: PaymentHarness, paid: int) -> None:
    asked = harness.payment()
    refs = [prepare_payment(harness, asked, number=number) for number in (1, 2, 3)]
    execute_payment(harness, refs[paid], asked, verified=True)

    assert harness.provider.find(asked) == Prepared(refs[paid])


def test_canceled_payment_is_found_before_unconfirmed_one(harness: PaymentHarness) -> None:
    asked = harness.payment()
    abandoned, closed = (prepare_payment(harness, asked, number=number) for number in (1, 2))
    harness.provider.close(closed, asked)

    assert abandoned != closed
    assert harness.provider.find(asked) == Prepared(closed)


def test_missing_reply_does_not_prove_absence(harness: PaymentHarness) -> None:
    harness.fail_next("find", ProviderFault.TIMEOUT_BEFORE)

    assert isinstance(harness.provider.find(harness.payment()), LookupFailed)


def test_search_is_anomalous_beyond_page_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncely.providers.stripe.payments.PAGE_SIZE", 1)
    monkeypatch.setattr("oncely.providers.stripe.payments.MAX_PAGES_AFTER_RESTORE", 2)
    with payment_harness("stripe") as harness:
        theirs = replace(harness.payment(), job_key=JobKey("payment.charge:order_9"))
        for number in (1, 2, 3):
            prepare_payment(harness, theirs, number=number)

        assert isinstance(harness.provider.find(harness.payment()), Anomalous)
