"""What any payment provider must do; the fake and the Stripe adapter are held to the same."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from oncely.domain.answers import (
    Absent,
    Done,
    NotSent,
    Odd,
    Prepared,
    Processing,
    Refused,
    StillOpen,
    Unclear,
    Unreachable,
)
from oncely.domain.keys import JobKey
from oncely.domain.money import Money
from tests.contract.payment_benches import (
    Bench,
    a_bench,
    key,
    payment,
    prepared,
)
from tests.support.payments import Fault


@pytest.fixture(params=["fake", "stripe"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with a_bench(request.param) as made:
        yield made


def test_prepare_moves_no_money(bench: Bench) -> None:
    asked = bench.payment()

    ref = prepared(bench, asked)

    assert bench.charges() == 0
    assert isinstance(bench.provider.look_up(ref, asked), Absent)


def test_repeated_prepare_with_same_key_is_marked_replayed(bench: Bench) -> None:
    asked = bench.payment()

    first, second = (bench.provider.prepare(asked, key=key("create:1")) for _ in range(2))

    assert isinstance(first, Prepared)
    assert not first.replayed
    assert second == Prepared(first.ref, replayed=True)


def test_execute_charges_once_and_returns_charge_id(bench: Bench) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)

    answer = bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(answer, Done)
    assert answer.ref == ref
    assert answer.result["charge_id"]
    assert answer.result["amount"] == 1250
    assert bench.charges() == 1


@pytest.mark.parametrize("second", ["confirm:1", "confirm:2"])
def test_repeated_execute_succeeds_without_second_charge(bench: Bench, second: str) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    first = bench.provider.execute(ref, asked, key=key("confirm:1"))

    again = bench.provider.execute(ref, asked, key=key(second))

    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert again.result["charge_id"] == first.result["charge_id"]
    assert bench.charges() == 1


def test_declined_payment_stays_open_on_lookup(bench: Bench) -> None:
    asked = bench.payment("declined")
    ref = prepared(bench, asked)

    answer = bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(answer, StillOpen)
    assert answer.code == "card_declined"
    assert isinstance(bench.provider.look_up(ref, asked), StillOpen)
    assert bench.charges() == 0


@pytest.mark.parametrize("succeeded", [True, False])
def test_processing_payment_resolves_later(bench: Bench, *, succeeded: bool) -> None:
    asked = bench.payment("processing")
    ref = prepared(bench, asked)
    answer = bench.provider.execute(ref, asked, key=key("confirm:1"))

    bench.pays_out(ref, succeeded=succeeded)

    assert isinstance(answer, Processing)
    assert isinstance(bench.provider.look_up(ref, asked), Done if succeeded else StillOpen)


@pytest.mark.parametrize("fault", [Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER])
def test_execute_without_reply_is_ambiguous_until_lookup(bench: Bench, fault: Fault) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.fails("execute", fault)

    answer = bench.provider.execute(ref, asked, key=key("confirm:1"), verified=True)

    assert isinstance(answer, Unclear)
    happened = fault is Fault.TIMEOUT_AFTER
    assert isinstance(bench.provider.look_up(ref, asked), Done if happened else Absent)
    assert bench.charges() == int(happened)


def test_prepare_without_reply_is_ambiguous_and_moves_no_money(bench: Bench) -> None:
    bench.fails("prepare", Fault.TIMEOUT_AFTER)

    answer = bench.provider.prepare(bench.payment(), key=key("create:1"))

    assert isinstance(answer, Unclear)
    assert bench.charges() == 0


@pytest.mark.parametrize("step", ["prepare", "execute"])
def test_rejected_api_key_sends_nothing_and_raises_alarm(bench: Bench, step: str) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.fails(step, Fault.UNAUTHORIZED)

    answer = (
        bench.provider.prepare(asked, key=key("create:2"))
        if step == "prepare"
        else bench.provider.execute(ref, asked, key=key("confirm:1"))
    )

    assert isinstance(answer, NotSent)
    assert answer.alarm
    assert bench.charges() == 0


def test_lookup_is_unreachable_when_request_fails(bench: Bench) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.fails("look_up", Fault.TIMEOUT_BEFORE)

    answer = bench.provider.look_up(ref, asked)

    assert isinstance(answer, Unreachable)


def test_lookup_is_anomalous_when_amount_differs(bench: Bench) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))

    answer = bench.provider.look_up(ref, payment(asked.method, amount=9900))

    assert isinstance(answer, Odd)
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
def test_mismatched_payment_is_never_executed(bench: Bench, changes: dict[str, Any]) -> None:
    asked = bench.payment()
    ref = prepared(bench, replace(asked, **changes))

    answers = (
        bench.provider.execute(ref, asked, key=key("confirm:1")),
        bench.provider.look_up(ref, asked),
    )

    assert all(isinstance(answer, Odd) for answer in answers)
    assert bench.charges() == 0


@pytest.mark.parametrize("first", ["paid", "not confirmed", "declined"])
def test_lookup_is_anomalous_when_other_payment_charged_same_job(first: str, bench: Bench) -> None:
    ours = bench.payment("declined" if first == "declined" else "good")
    ref = prepared(bench, ours)
    if first != "not confirmed":
        bench.provider.execute(ref, ours, key=key("confirm:1"))
    second = bench.provider.prepare(bench.payment(), key=key("create:2"))
    assert isinstance(second, Prepared)
    bench.provider.execute(second.ref, bench.payment(), key=key("confirm:2"))

    answer = bench.provider.look_up(ref, ours)

    assert isinstance(answer, Odd)
    assert answer.ref == ref
    assert second.ref in answer.reason


def test_uncharged_other_payment_does_not_affect_lookup(bench: Bench) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))
    bench.provider.prepare(asked, key=key("create:2"))

    assert isinstance(bench.provider.look_up(ref, asked), Done)


@pytest.mark.parametrize(
    "changes", [{"job_key": JobKey("payment.charge:order_2")}, {"deployment": "staging"}]
)
def test_payment_of_other_job_or_deployment_is_ignored(
    bench: Bench, changes: dict[str, Any]
) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))
    other = replace(asked, **changes)
    second = bench.provider.prepare(other, key=key("create:2"))
    assert isinstance(second, Prepared)
    bench.provider.execute(second.ref, other, key=key("confirm:2"))

    assert isinstance(bench.provider.look_up(ref, asked), Done)


@pytest.mark.parametrize("kind", ["good", "declined"])
@pytest.mark.parametrize("verified", [True, False])
def test_closed_payment_can_never_be_executed(bench: Bench, kind: str, *, verified: bool) -> None:
    asked = bench.payment(kind)
    ref = prepared(bench, asked)
    if kind == "declined":
        bench.provider.execute(ref, asked, key=key("confirm:1"))

    closed = bench.provider.close(ref, asked, verified=verified)
    again = bench.provider.close(ref, asked)
    answer = bench.provider.execute(ref, asked, key=key("confirm:2"), verified=True)

    assert all(isinstance(one, Refused) for one in (closed, again, answer))
    assert isinstance(bench.provider.look_up(ref, asked), Refused)
    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), Refused)
    assert bench.charges() == 0


@pytest.mark.parametrize("verified", [True, False])
def test_close_of_paid_payment_returns_done(bench: Bench, *, verified: bool) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(bench.provider.close(ref, asked, verified=verified), Done)
    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), Done)


@pytest.mark.parametrize("verified", [True, False])
def test_close_of_processing_payment_returns_processing(bench: Bench, *, verified: bool) -> None:
    asked = bench.payment("processing")
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(bench.provider.close(ref, asked, verified=verified), Processing)
    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), Processing)


@pytest.mark.parametrize("fault", [Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER])
def test_close_without_reply_is_ambiguous_until_lookup(bench: Bench, fault: Fault) -> None:
    asked = bench.payment("declined")
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))
    bench.fails("close", fault)

    answer = bench.provider.close(ref, asked, verified=True)

    assert isinstance(answer, Unclear)
    happened = fault is Fault.TIMEOUT_AFTER
    found = bench.provider.look_up(ref, asked)
    assert isinstance(found, Refused if happened else StillOpen)


def test_payment_of_other_job_is_never_closed(bench: Bench) -> None:
    asked = bench.payment()
    theirs = replace(asked, job_key=JobKey("payment.charge:order_9"))
    ref = prepared(bench, theirs)

    assert isinstance(bench.provider.close(ref, asked), Odd)
    assert isinstance(bench.provider.look_up(ref, theirs), Absent)
    # For this job it never takes money, so this job may fail.
    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), Refused)


@pytest.mark.parametrize("kind", ["good", "processing"])
def test_closed_payment_is_anomalous_when_other_payment_charged(bench: Bench, kind: str) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.provider.close(ref, asked)
    other = bench.payment(kind)
    second = bench.provider.prepare(other, key=key("create:2"))
    assert isinstance(second, Prepared)
    bench.provider.execute(second.ref, other, key=key("confirm:2"))

    answer = bench.provider.ask_closed(ref, job_key=asked.job_key)

    assert isinstance(answer, Odd)
    assert second.ref in answer.reason
    if kind == "processing":
        bench.pays_out(second.ref, succeeded=True)
    bench.refunds(second.ref)
    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), Refused)


@pytest.mark.parametrize("kind", ["good", "declined"])
def test_chargeable_payment_is_still_open(bench: Bench, kind: str) -> None:
    asked = bench.payment(kind)
    ref = prepared(bench, asked)
    if kind == "declined":
        bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), StillOpen)
