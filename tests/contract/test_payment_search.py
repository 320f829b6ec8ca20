"""A payment that a restored row has lost is found by deployment and job key, and no other one."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from oncely.domain.answers import Absent, Odd, Prepared, Unreachable
from oncely.domain.keys import JobKey
from tests.contract.payment_benches import Bench, StripeBench, a_bench, key, prepared
from tests.support.payments import Fault


@pytest.fixture(params=["fake", "stripe"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with a_bench(request.param) as made:
        yield made


def test_absence_is_conclusive_when_customer_has_no_payment(bench: Bench) -> None:
    found = bench.provider.find(bench.payment())

    assert isinstance(found, Absent)
    assert found.proved


def test_prepared_payment_is_found(bench: Bench) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)

    assert bench.provider.find(asked) == Prepared(ref)


def test_payment_of_other_job_or_deployment_is_not_found(bench: Bench) -> None:
    asked = replace(bench.payment(), deployment="dev")
    prepared(bench, replace(asked, job_key=JobKey("payment.charge:order_9")))
    prepared(bench, replace(asked, deployment="staging"), number=2)
    prepared(bench, replace(asked, deployment=None), number=3)

    assert isinstance(bench.provider.find(asked), Absent)


@pytest.mark.parametrize("paid", [1, 2])
def test_charged_payment_is_found_among_several(bench: Bench, paid: int) -> None:
    asked = bench.payment()
    refs = [prepared(bench, asked, number=number) for number in (1, 2, 3)]
    bench.provider.execute(refs[paid], asked, key=key("confirm:1"), verified=True)

    assert bench.provider.find(asked) == Prepared(refs[paid])


def test_canceled_payment_is_found_before_unconfirmed_one(bench: Bench) -> None:
    asked = bench.payment()
    abandoned, closed = (prepared(bench, asked, number=number) for number in (1, 2))
    bench.provider.close(closed, asked)

    assert abandoned != closed
    assert bench.provider.find(asked) == Prepared(closed)


def test_missing_reply_does_not_prove_absence(bench: Bench) -> None:
    bench.fails("find", Fault.TIMEOUT_BEFORE)

    assert isinstance(bench.provider.find(bench.payment()), Unreachable)


def test_search_is_anomalous_when_customer_has_too_many_payments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oncely.adapters.stripe_payments.PAGE_SIZE", 1)
    monkeypatch.setattr("oncely.adapters.stripe_payments.MAX_PAGES_AFTER_RESTORE", 2)
    with a_bench("stripe") as bench:
        assert isinstance(bench, StripeBench)
        theirs = replace(bench.payment(), job_key=JobKey("payment.charge:order_9"))
        for number in (1, 2, 3):
            prepared(bench, theirs, number=number)

        assert isinstance(bench.provider.find(bench.payment()), Odd)
