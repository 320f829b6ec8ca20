"""Schedules that could hold or take money twice: the shipped client over the model of Braintree."""

from datetime import timedelta
from itertools import count

import pytest

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    StillOpen,
    Succeeded,
)
from oncely.core.keys import IdempotencyKey
from oncely.core.money import Money
from oncely.providers.braintree.plugin import SEARCH_LAG
from oncely.providers.braintree.sandbox import key_error
from oncely.testing.digest import Digester
from oncely.testing.in_process import refuse_connection
from oncely.testing.sandbox import EffectState
from tests.conformance.payment_harnesses import make_payment
from tests.support.braintree_account import BraintreeAccount
from tests.support.fakes import FakeClock

KEY = IdempotencyKey("dev:payment.charge:order_18452:create:1")
PAYMENT = make_payment("bt_visa")


class Schedule:
    """One job, whose runs and lookups a test calls in the order of its schedule."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.account = BraintreeAccount(now=self.clock.now)
        self.client, self.model = self.account.client, self.account.model
        self.numbers = count(1)

    def lose(self, fault: str, step: str, **options: float) -> None:
        self.account.sandbox.faults.add(fault, **self.model.requests[step], **options)

    def new_key(self) -> IdempotencyKey:
        """A key that no other request of this schedule has."""
        return IdempotencyKey(f"create:{next(self.numbers)}")

    def prepare(self) -> str:
        made = self.client.prepare(PAYMENT, idempotency_key=self.new_key())
        assert isinstance(made, Prepared)
        return made.ref

    def execute(self, ref: str, *, verified: bool = False) -> EffectOutcome:
        key = self.new_key()
        return self.client.execute(ref, PAYMENT, idempotency_key=key, verified=verified)

    def charges(self) -> int:
        return sum(one.state is EffectState.DONE for one in self.account.sandbox.effects())


@pytest.fixture
def schedule() -> Schedule:
    return Schedule()


def test_lost_authorization_is_found_once_the_search_shows_it(schedule: Schedule) -> None:
    schedule.model.search_lag = SEARCH_LAG - timedelta(seconds=1)
    schedule.lose("accept_then_drop", "prepare")
    lost = schedule.client.prepare(PAYMENT, idempotency_key=schedule.new_key())

    early = schedule.client.find(PAYMENT)
    schedule.clock.advance(minutes=5)
    found = schedule.client.find(PAYMENT)

    assert isinstance(lost, Ambiguous)
    assert isinstance(early, NotFound)
    assert not early.conclusive
    assert isinstance(found, Prepared)
    assert isinstance(schedule.execute(found.ref), Succeeded)
    assert (schedule.model.ledger.held, schedule.charges()) == ([found.ref], 1)


def test_authorization_that_arrives_late_is_found(schedule: Schedule) -> None:
    schedule.lose("arrives_late", "prepare", seconds=60)
    assert isinstance(
        schedule.client.prepare(PAYMENT, idempotency_key=schedule.new_key()), Ambiguous
    )
    assert isinstance(schedule.client.find(PAYMENT), NotFound)

    schedule.clock.advance(minutes=5)
    schedule.account.sandbox.deliver_late(until=schedule.clock.now())

    assert schedule.client.find(PAYMENT) == Prepared(schedule.account.refs[0])


def test_worker_with_unsaved_id_cannot_submit_after_the_next_run(schedule: Schedule) -> None:
    unsaved, saved = schedule.prepare(), schedule.prepare()

    assert isinstance(schedule.execute(saved), Succeeded)
    assert isinstance(schedule.execute(unsaved, verified=True), Declined)
    assert (schedule.model.ledger.held, schedule.charges()) == ([saved], 1)


def test_run_after_unsaved_id_was_submitted_takes_nothing(schedule: Schedule) -> None:
    unsaved, saved = schedule.prepare(), schedule.prepare()
    schedule.execute(unsaved, verified=True)

    outcome = schedule.execute(saved)

    assert isinstance(outcome, Anomalous)
    assert unsaved in outcome.reason
    assert schedule.charges() == 1


@pytest.mark.parametrize("enforced", [True, False])
def test_submission_that_arrives_late_is_rejected_by_braintree_alone(
    schedule: Schedule, *, enforced: bool
) -> None:
    """The rule that the profile relies on: without it, the ledger has two charges."""
    schedule.model.rejects_second_submission = enforced
    ref = schedule.prepare()
    schedule.lose("arrives_late", "execute", seconds=600)
    assert isinstance(schedule.execute(ref, verified=True), Ambiguous)
    assert isinstance(schedule.client.lookup(ref, PAYMENT), NotFound)

    assert isinstance(schedule.execute(ref), Succeeded)
    schedule.account.sandbox.deliver_late()

    assert schedule.charges() == (1 if enforced else 2)


@pytest.mark.parametrize(("fault", "happened"), [("drop_before", False), ("error_after", True)])
def test_forgotten_void_is_read_or_repeated(
    schedule: Schedule, fault: str, *, happened: bool
) -> None:
    ref = schedule.prepare()
    schedule.lose(fault, "close")

    first = schedule.client.close(ref, PAYMENT)

    assert isinstance(first, Declined if happened else Ambiguous)
    assert isinstance(schedule.client.close(ref, PAYMENT), Declined)
    assert isinstance(schedule.execute(ref, verified=True), Declined)
    assert (schedule.model.ledger.held, schedule.charges()) == ([], 0)


def test_submission_before_a_late_void_is_undone_and_says_so(schedule: Schedule) -> None:
    """A void of a transaction that was submitted in between takes the money back."""
    ref = schedule.prepare()
    schedule.lose("arrives_late", "close", seconds=60)
    assert isinstance(schedule.client.close(ref, PAYMENT), Ambiguous)
    assert isinstance(schedule.execute(ref), Succeeded)

    schedule.account.sandbox.deliver_late()

    assert isinstance(schedule.client.lookup(ref, PAYMENT), Declined)
    assert schedule.charges() == 0


def test_hold_that_is_found_late_is_voided_before_the_job_fails(schedule: Schedule) -> None:
    schedule.model.search_lag = timedelta(minutes=4)
    hidden = schedule.prepare()
    schedule.model.acts_as = schedule.model.samples["declined"]
    assert isinstance(
        schedule.client.prepare(PAYMENT, idempotency_key=schedule.new_key()), Declined
    )
    _, declined = schedule.account.refs
    assert isinstance(schedule.client.lookup(declined, PAYMENT), Declined)

    schedule.clock.advance(minutes=4)

    assert isinstance(schedule.client.lookup(declined, PAYMENT), StillOpen)
    assert isinstance(schedule.client.close(declined, PAYMENT), Declined)
    assert schedule.account.status(hidden) == "voided"


def test_hold_that_is_found_after_the_charge_is_not_a_second_charge(schedule: Schedule) -> None:
    schedule.model.search_lag = timedelta(minutes=10)
    hidden, charged = schedule.prepare(), schedule.prepare()
    assert isinstance(schedule.execute(charged), Succeeded)

    schedule.clock.advance(minutes=10)

    found = schedule.client.lookup(charged, PAYMENT)
    assert isinstance(found, Succeeded)
    assert f"{hidden} still holds money: void it" in found.reason
    assert schedule.account.status(hidden) == "authorized", "a lookup performs nothing"
    assert schedule.charges() == 1


def test_pending_settlement_is_decided_after_its_time(schedule: Schedule) -> None:
    schedule.model.acts_as = schedule.model.samples["pending"]
    schedule.model.pending_for = timedelta(minutes=10)
    ref = schedule.prepare()
    assert isinstance(schedule.execute(ref), Pending)

    schedule.clock.advance(minutes=10)
    assert isinstance(schedule.client.lookup(ref, PAYMENT), Pending)
    schedule.clock.advance(seconds=1)

    assert isinstance(schedule.client.lookup(ref, PAYMENT), Succeeded)


@pytest.mark.parametrize(("enforced", "charges"), [(True, 0), (False, 1)])
def test_settlement_is_limited_to_the_authorization(
    schedule: Schedule, charges: int, *, enforced: bool
) -> None:
    schedule.model.limits_settlement = enforced
    ref = schedule.prepare()
    schedule.account.change(ref, money=Money(1249, "eur"))

    assert isinstance(schedule.execute(ref), Anomalous), "it is read before it is submitted"
    assert schedule.charges() == 0
    schedule.execute(ref, verified=True)

    assert schedule.charges() == charges


def test_disputed_charge_is_done_and_needs_review(schedule: Schedule) -> None:
    ref = schedule.prepare()
    schedule.execute(ref)
    schedule.model.dispute(ref)

    outcome = schedule.client.lookup(ref, PAYMENT)

    assert isinstance(outcome, Anomalous)
    assert (outcome.effect_done, "disputed" in outcome.reason) == (True, True)


@pytest.mark.parametrize(
    ("fault", "outcome", "made"),
    [
        ("accept_then_hang", Ambiguous, 1),
        ("garbled", Ambiguous, 1),
        ("error_unstored", Ambiguous, 0),
        ("outage", Ambiguous, 0),
        ("drop_before", Ambiguous, 0),
        ("rate_limit", NotSent, 0),
        ("unauthorized", NotSent, 0),
    ],
)
def test_each_fault_has_its_outcome_in_process(
    schedule: Schedule, fault: str, outcome: type, made: int
) -> None:
    schedule.lose(fault, "prepare")
    assert type(schedule.client.prepare(PAYMENT, idempotency_key=schedule.new_key())) is outcome
    assert len(schedule.account.refs) == made


def test_refused_connection_sends_nothing_in_process(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule.account.sandbox, "serve", lambda _: refuse_connection())
    assert isinstance(schedule.client.prepare(PAYMENT, idempotency_key=schedule.new_key()), NotSent)


def test_equal_histories_have_equal_digests() -> None:
    """So the explorer visits a state once."""
    one, other = Schedule(), Schedule()
    for each in (one, other):
        each.prepare()
    digest = Digester().digest
    assert digest(one.model) == digest(other.model)
    other.execute("bt_1")
    assert digest(one.model) != digest(other.model)


# --- Keys ---


def requests_with_key(schedule: Schedule, step: str) -> list[bool]:
    """Whether each request of a step carried a key."""
    made = schedule.account.sandbox.ledger.requests
    named = [one for one in made if schedule.model.request_name(one) == step]
    return [b"<api_request_key>" in one.body for one in named]


def test_every_request_that_moves_money_carries_its_key(schedule: Schedule) -> None:
    stray = schedule.prepare()
    schedule.execute(schedule.prepare())

    assert schedule.account.status(stray) == "voided"
    for step in ("prepare", "execute", "close"):
        assert set(requests_with_key(schedule, step)) == {True}, step


def test_authorization_that_is_sent_twice_under_one_key_holds_money_once(
    schedule: Schedule,
) -> None:
    schedule.lose("arrives_late", "prepare", seconds=60)
    lost = schedule.client.prepare(PAYMENT, idempotency_key=KEY)
    made = schedule.client.prepare(PAYMENT, idempotency_key=KEY)
    schedule.account.sandbox.deliver_late()

    assert isinstance(lost, Ambiguous)
    assert isinstance(made, Prepared)
    assert schedule.model.ledger.held == [made.ref]


def test_merchant_without_keys_is_charged_once_without_them(schedule: Schedule) -> None:
    schedule.model.accepts_keys = False
    stray, ref = schedule.prepare(), schedule.prepare()

    assert isinstance(schedule.execute(ref), Succeeded)
    assert (schedule.model.ledger.held, schedule.charges()) == ([ref], 1)
    assert schedule.account.status(stray) == "voided"
    assert requests_with_key(schedule, "prepare") == [True, False] * 2


@pytest.mark.parametrize("code", ["915232", "915233", "915234", "915235"])
def test_rejected_key_says_nothing_about_the_authorization(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(schedule.model, "_once", lambda *_: key_error(code))
    outcome = schedule.client.prepare(PAYMENT, idempotency_key=KEY)
    assert isinstance(outcome, Ambiguous)
    assert code in outcome.reason

    monkeypatch.undo()
    ref = schedule.prepare()
    monkeypatch.setattr(schedule.model, "_once", lambda *_: key_error(code))
    assert isinstance(schedule.execute(ref, verified=True), Ambiguous)
    assert isinstance(schedule.client.close(ref, PAYMENT), Declined), "a void is safe to repeat"
    assert schedule.charges() == 0


def test_failed_request_leaves_its_key_used(schedule: Schedule) -> None:
    schedule.lose("error_before", "prepare")
    assert isinstance(schedule.client.prepare(PAYMENT, idempotency_key=KEY), Ambiguous)
    again = schedule.client.prepare(PAYMENT, idempotency_key=KEY)
    assert isinstance(again, Ambiguous)
    assert "915234" in again.reason
    assert isinstance(
        schedule.client.prepare(PAYMENT, idempotency_key=schedule.new_key()), Prepared
    )


def test_key_that_is_too_long_needs_review(schedule: Schedule) -> None:
    outcome = schedule.client.prepare(PAYMENT, idempotency_key=IdempotencyKey("x" * 256))
    assert isinstance(outcome, Anomalous)
    assert "915230" in outcome.reason
