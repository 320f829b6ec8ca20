"""Dead letters: a known state for each, and no mass of reviews after an outage."""

import json

from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.services.dead_letters import DeadLetters, Fate, Received
from oncely.services.outcomes import Finished
from tests.support.fakes import FakeInbox
from tests.support.payments import Fault
from tests.support.world import World, charge

KEY = JobKey("payment.charge:order_18452")


def receive(world: World, *bodies: str, inbox: FakeInbox | None = None) -> list[Received]:
    letters = DeadLetters(
        registry=world.registry,
        store=world.store,
        alerts=world.alerts,
        inbox=inbox or FakeInbox(),
        clock=world.clock,
    )
    return letters.receive_all({str(number): body for number, body in enumerate(bodies)})


def test_a_message_that_no_worker_took_becomes_a_ready_row_that_falls_due() -> None:
    world = World()
    world.add_order()

    (letter,) = receive(world, json.dumps(charge()))
    job = world.job(KEY)
    finished = world.until_quiet(KEY)

    assert letter.fate is Fate.KEPT
    assert job.status is Status.READY
    assert job.message["order_id"] == "18452"
    assert finished.status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]


def test_a_ready_row_is_tried_again_later() -> None:
    world = World()
    world.add_order()
    world.payments.fails("prepare", Fault.REFUSED_CONNECTION)
    world.run(charge())
    due = world.job(KEY).due_at

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.KEPT
    assert due is not None
    assert (world.job(KEY).due_at or due) > due


def test_the_row_of_a_job_that_ended_carries_it() -> None:
    world = World()
    world.add_order()
    world.run(charge())
    before = world.job(KEY)

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.CARRIED
    assert world.job(KEY) == before


def test_given_up_again_and_again_without_a_claim_it_needs_review() -> None:
    world = World()
    receive(world, json.dumps(charge()))
    world.clock.move(hours=7)

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.REVIEW
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_an_outage_of_ours_of_some_hours_ends_as_no_review() -> None:
    world = World()
    world.add_order()
    for _ in range(5):
        receive(world, json.dumps(charge()))
        world.clock.move(hours=1)

    job = world.until_quiet(KEY)

    assert job.status is Status.FINISHED


def test_a_claim_in_between_starts_the_count_anew() -> None:
    world = World()
    world.add_order()
    receive(world, json.dumps(charge()))
    world.clock.move(hours=7)
    world.payments.fails("prepare", Fault.REFUSED_CONNECTION)
    world.run(charge())

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.KEPT
    assert isinstance(world.run(charge()), Finished)


def test_what_never_was_a_job_goes_to_the_rejects() -> None:
    world = World()
    inbox = FakeInbox()

    (letter,) = receive(world, "not JSON", inbox=inbox)

    assert letter.fate is Fate.REJECTED
    assert inbox.rejected[0][0] == "not JSON"


def test_a_batch_is_one_alert() -> None:
    world = World()

    receive(world, *[json.dumps(charge(str(number))) for number in range(10)])

    assert len(world.alerts.told) == 1


class _FullRejects(FakeInbox):
    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        raise OSError("the rejects queue does not answer")


def test_one_letter_that_cannot_be_rejected_stays_and_its_neighbours_go_on() -> None:
    world = World()

    bad, good = receive(world, "not JSON", json.dumps(charge()), inbox=_FullRejects())

    assert bad.fate is Fate.LEFT
    assert good.fate is Fate.KEPT
