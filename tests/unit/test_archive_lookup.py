"""Whoever acts has looked into the archive: an expired job is never run a second time."""

from contextlib import suppress

from oncely.contracts.payment_charge import PaymentCharge
from oncely.domain.lifecycle import Status
from oncely.services.outcomes import Conflict, Finished
from tests.support.mortal import DiedError, Meanwhile
from tests.support.payments import FakePayments
from tests.support.world import World, charge

KEY = "payment.charge:order_18452"


def declined_archived_and_expired() -> World:
    world = World()
    world.add_order()
    world.payments.declines = True
    world.run(charge())
    world.archive.keep(world.job(KEY))
    world.store.expire(KEY)
    world.payments = FakePayments()  # months later: the provider has forgotten our keys
    return world


def test_a_first_look_that_failed_is_made_up_for_by_the_second_claim() -> None:
    world = declined_archived_and_expired()
    world.archive.broken = True
    world.run(charge())
    world.archive.broken = False
    world.clock.move(minutes=1)

    world.run(charge())

    assert world.job(KEY).status is Status.FAILED
    assert world.payments.charges == []


def test_a_first_look_that_failed_does_not_bind_the_key_to_what_the_order_said_then() -> None:
    world = declined_archived_and_expired()
    world.archive.broken = True
    world.run(charge())
    world.archive.broken = False
    world.add_order(amount=9900)
    world.clock.move(minutes=1)

    world.run(charge())

    assert world.job(KEY).status is Status.FAILED
    assert world.payments.charges == []


def test_a_crash_between_claim_and_look_is_made_up_for() -> None:
    world = declined_archived_and_expired()

    def die() -> None:
        raise DiedError

    with suppress(DiedError):
        world.run(charge(), runner=world.runner(store=Meanwhile(world.store, "claim", die)))
    job = world.until_quiet(KEY)

    assert job.status is Status.FAILED
    assert world.payments.charges == []


def test_a_contradicted_end_is_not_answered_from_the_archive_again() -> None:
    world = World()
    world.add_order()

    def somebody_fails_and_archives_it() -> None:
        world.clock.move(hours=1)
        world.payments.settle("pi_1", status="declined")
        world.until_quiet(KEY)
        world.publisher().publish(world.job(KEY).job_key)

    slow = Meanwhile(world.payments, "execute", somebody_fails_and_archives_it)
    world.run(charge(), runner=world.runner(provider=slow))

    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert world.job(KEY).beyond_archive


def test_a_replay_after_expiry_for_other_values_is_a_conflict_and_the_first_end_stands() -> None:
    world = World()
    world.add_order()
    world.run(charge())
    world.publisher().publish(world.job(KEY).job_key)
    first = world.job(KEY)
    world.store.expire(KEY)
    world.add_order(amount=9900)

    outcome = world.run(charge())

    assert isinstance(outcome, Conflict)
    assert (world.job(KEY).status, world.job(KEY).result) == (first.status, first.result)
    assert world.job(KEY).fingerprint == first.fingerprint
    assert world.payments.charges == ["pi_1"]
    assert (world.job(KEY).amount, world.job(KEY).message) == (1250, first.message)
    assert "12.50 EUR" in PaymentCharge.done_words(world.job(KEY))


def test_a_charge_after_a_failed_look_is_told_with_the_amount_that_was_charged() -> None:
    world = World()
    world.add_order()
    world.archive.broken = True
    world.run(charge())
    world.archive.broken = False
    world.add_order(amount=9900, customer_id="customer_8")
    world.clock.move(minutes=1)

    world.run(charge())

    job = world.job(KEY)
    assert job.status is Status.FINISHED
    assert (job.amount, job.customer_id) == (9900, "customer_8")


def test_a_refused_payment_that_comes_back_from_the_archive_can_still_be_cancelled() -> None:
    world = World()
    world.add_order()
    world.payments.declines = True
    world.run(charge())
    world.publisher().publish(world.job(KEY).job_key)
    world.store.expire(KEY)
    world.run(charge())
    world.payments.declines = False

    outcome = world.run(charge(attempt=2))

    assert isinstance(outcome, Finished)
    assert world.payments.intents["pi_1"].status == "canceled"
