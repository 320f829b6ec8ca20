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


def test_preparing_moves_nothing(bench: Bench) -> None:
    asked = bench.payment()

    ref = prepared(bench, asked)

    assert bench.charges() == 0
    assert isinstance(bench.provider.look_up(ref, asked), Absent)


def test_preparing_again_under_the_same_key_says_that_this_call_made_nothing(bench: Bench) -> None:
    asked = bench.payment()

    first, second = (bench.provider.prepare(asked, key=key("create:1")) for _ in range(2))

    assert isinstance(first, Prepared)
    assert not first.replayed
    assert second == Prepared(first.ref, replayed=True)


def test_executing_moves_the_money_once_and_names_the_charge(bench: Bench) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)

    answer = bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(answer, Done)
    assert answer.ref == ref
    assert answer.result["charge_id"]
    assert answer.result["amount"] == 1250
    assert bench.charges() == 1


@pytest.mark.parametrize("second", ["confirm:1", "confirm:2"])
def test_executing_a_paid_payment_again_says_done_and_moves_nothing(
    bench: Bench, second: str
) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    first = bench.provider.execute(ref, asked, key=key("confirm:1"))

    again = bench.provider.execute(ref, asked, key=key(second))

    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert again.result["charge_id"] == first.result["charge_id"]
    assert bench.charges() == 1


def test_a_declined_payment_is_still_open_and_looking_up_says_so(bench: Bench) -> None:
    asked = bench.payment("declined")
    ref = prepared(bench, asked)

    answer = bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(answer, StillOpen)
    assert answer.code == "card_declined"
    assert isinstance(bench.provider.look_up(ref, asked), StillOpen)
    assert bench.charges() == 0


@pytest.mark.parametrize("succeeded", [True, False])
def test_a_payment_in_processing_is_decided_later(bench: Bench, *, succeeded: bool) -> None:
    asked = bench.payment("processing")
    ref = prepared(bench, asked)
    answer = bench.provider.execute(ref, asked, key=key("confirm:1"))

    bench.pays_out(ref, succeeded=succeeded)

    assert isinstance(answer, Processing)
    assert isinstance(bench.provider.look_up(ref, asked), Done if succeeded else StillOpen)


@pytest.mark.parametrize("fault", [Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER])
def test_no_answer_to_executing_is_unclear_and_looking_up_tells(bench: Bench, fault: Fault) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.fails("execute", fault)

    answer = bench.provider.execute(ref, asked, key=key("confirm:1"), verified=True)

    assert isinstance(answer, Unclear)
    happened = fault is Fault.TIMEOUT_AFTER
    assert isinstance(bench.provider.look_up(ref, asked), Done if happened else Absent)
    assert bench.charges() == int(happened)


def test_no_answer_to_preparing_is_unclear_and_moves_nothing(bench: Bench) -> None:
    bench.fails("prepare", Fault.TIMEOUT_AFTER)

    answer = bench.provider.prepare(bench.payment(), key=key("create:1"))

    assert isinstance(answer, Unclear)
    assert bench.charges() == 0


@pytest.mark.parametrize("step", ["prepare", "execute"])
def test_a_refused_key_means_that_nothing_was_sent_and_somebody_must_know(
    bench: Bench, step: str
) -> None:
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


def test_a_provider_that_cannot_be_asked_says_so(bench: Bench) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.fails("look_up", Fault.TIMEOUT_BEFORE)

    answer = bench.provider.look_up(ref, asked)

    assert isinstance(answer, Unreachable)


def test_found_with_another_amount_is_for_a_person(bench: Bench) -> None:
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
def test_a_payment_of_somebody_else_is_never_executed(
    bench: Bench, changes: dict[str, Any]
) -> None:
    asked = bench.payment()
    ref = prepared(bench, replace(asked, **changes))

    answers = (
        bench.provider.execute(ref, asked, key=key("confirm:1")),
        bench.provider.look_up(ref, asked),
    )

    assert all(isinstance(answer, Odd) for answer in answers)
    assert bench.charges() == 0


@pytest.mark.parametrize("first", ["paid", "not confirmed", "declined"])
def test_another_payment_that_moved_money_for_the_same_job_is_for_a_person(
    first: str, bench: Bench
) -> None:
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


def test_another_payment_that_never_moved_money_changes_nothing(bench: Bench) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))
    bench.provider.prepare(asked, key=key("create:2"))

    assert isinstance(bench.provider.look_up(ref, asked), Done)


@pytest.mark.parametrize(
    "changes", [{"job_key": JobKey("payment.charge:order_2")}, {"deployment": "staging"}]
)
def test_a_payment_of_another_job_or_deployment_changes_nothing(
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
def test_a_closed_payment_can_never_be_executed(bench: Bench, kind: str, *, verified: bool) -> None:
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
def test_closing_a_paid_payment_says_that_it_is_paid(bench: Bench, *, verified: bool) -> None:
    asked = bench.payment()
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(bench.provider.close(ref, asked, verified=verified), Done)
    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), Done)


@pytest.mark.parametrize("verified", [True, False])
def test_closing_a_payment_in_processing_says_that_it_is_processing(
    bench: Bench, *, verified: bool
) -> None:
    asked = bench.payment("processing")
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(bench.provider.close(ref, asked, verified=verified), Processing)
    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), Processing)


@pytest.mark.parametrize("fault", [Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER])
def test_no_answer_to_closing_is_unclear_and_looking_up_tells(bench: Bench, fault: Fault) -> None:
    asked = bench.payment("declined")
    ref = prepared(bench, asked)
    bench.provider.execute(ref, asked, key=key("confirm:1"))
    bench.fails("close", fault)

    answer = bench.provider.close(ref, asked, verified=True)

    assert isinstance(answer, Unclear)
    happened = fault is Fault.TIMEOUT_AFTER
    found = bench.provider.look_up(ref, asked)
    assert isinstance(found, Refused if happened else StillOpen)


def test_a_payment_of_somebody_else_is_never_closed(bench: Bench) -> None:
    asked = bench.payment()
    theirs = replace(asked, job_key=JobKey("payment.charge:order_9"))
    ref = prepared(bench, theirs)

    assert isinstance(bench.provider.close(ref, asked), Odd)
    assert isinstance(bench.provider.look_up(ref, theirs), Absent)
    # For this job it never takes money, so this job may fail.
    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), Refused)


@pytest.mark.parametrize("kind", ["good", "processing"])
def test_a_canceled_payment_is_not_all_when_another_of_the_same_job_took_money(
    bench: Bench, kind: str
) -> None:
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
def test_a_payment_that_can_still_take_money_is_open(bench: Bench, kind: str) -> None:
    asked = bench.payment(kind)
    ref = prepared(bench, asked)
    if kind == "declined":
        bench.provider.execute(ref, asked, key=key("confirm:1"))

    assert isinstance(bench.provider.ask_closed(ref, job_key=asked.job_key), StillOpen)
