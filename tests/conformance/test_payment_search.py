"""A payment that a restored row has lost is found by deployment and job key, and no other one."""

from dataclasses import replace

import pytest

from oncely.core.effect_outcomes import Anomalous, Declined, LookupFailed, NotFound, Prepared
from oncely.core.keys import JobKey
from oncely.plugins.provider import AnyProvider
from oncely.providers.stripe import STRIPE
from tests.conformance.payment_harnesses import (
    PaymentHarness,
    execute_payment,
    payment_harness,
    prepare_payment,
)
from tests.support.provider_fault import ProviderFault


def test_absence_is_conclusive_unless_the_search_lags(
    rig: PaymentHarness, plugin: AnyProvider
) -> None:
    found = rig.provider.find(rig.payment())
    assert isinstance(found, NotFound)
    assert found.conclusive is not bool(plugin.profile.lookup_lag)


def test_prepared_payment_is_found(rig: PaymentHarness) -> None:
    ref = prepare_payment(rig, rig.payment())
    assert rig.provider.find(rig.payment()) == Prepared(ref)


def test_payment_of_other_job_or_deployment_is_not_found(rig: PaymentHarness) -> None:
    asked = replace(rig.payment(), deployment="dev")
    prepare_payment(rig, replace(asked, job_key=JobKey("payment.charge:order_9")))
    prepare_payment(rig, replace(asked, deployment="staging"), number=2)
    prepare_payment(rig, replace(asked, deployment=None), number=3)
    assert isinstance(rig.provider.find(asked), NotFound)


@pytest.mark.parametrize("paid", [1, 2])
def test_charged_payment_is_found_among_several(rig: PaymentHarness, paid: int) -> None:
    asked = rig.payment()
    refs = [prepare_payment(rig, asked, number=number) for number in (1, 2, 3)]
    execute_payment(rig, refs[paid], asked, verified=True)
    assert rig.provider.find(asked) == Prepared(refs[paid])


@pytest.mark.parametrize("closed", [0, 1])
def test_canceled_payment_is_found_before_unconfirmed_one(rig: PaymentHarness, closed: int) -> None:
    asked = rig.payment()
    refs = [prepare_payment(rig, asked, number=number) for number in (1, 2)]
    rig.provider.close(refs[closed], asked)
    assert refs[0] != refs[1]
    found = rig.provider.find(asked)
    assert isinstance(found, Prepared)
    assert isinstance(rig.provider.lookup(found.ref, asked), Declined)


def test_missing_reply_does_not_prove_absence(rig: PaymentHarness) -> None:
    rig.fail_next("find", ProviderFault.TIMEOUT_BEFORE)
    assert isinstance(rig.provider.find(rig.payment()), LookupFailed)


def test_search_is_anomalous_beyond_page_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncely.providers.stripe.payments.PAGE_SIZE", 1)
    monkeypatch.setattr("oncely.providers.stripe.payments.MAX_PAGES_AFTER_RESTORE", 2)
    with payment_harness(STRIPE) as rig:
        theirs = replace(rig.payment(), job_key=JobKey("payment.charge:order_9"))
        for number in (1, 2, 3):
            prepare_payment(rig, theirs, number=number)

        assert isinstance(rig.provider.find(rig.payment()), Anomalous)
