"""Dead letters: a known state for each, and no mass of reviews after an outage."""

import json
from dataclasses import replace

from oncely.domain.errors import UnavailableError
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.moves import STRANDED_WAIT
from oncely.services.dead_letters import DeadLetters, Fate, Received
from oncely.services.outcomes import Finished
from tests.support.fakes import FakeInbox
from tests.support.mortal import Meanwhile
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
        guard=world.table,
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


def test_a_letter_whose_alert_could_not_be_delivered_comes_again_and_changes_nothing() -> None:
    world = World()
    inbox = FakeInbox()
    world.alerts.broken = True
    first = receive(world, json.dumps(charge()), "not JSON", inbox=inbox)
    row = world.job(KEY)
    world.clock.move(minutes=6)
    world.alerts.broken = False

    again = receive(world, json.dumps(charge()), "not JSON", inbox=inbox)

    assert [letter.fate for letter in first] == [Fate.LEFT, Fate.LEFT]
    assert [letter.fate for letter in again] == [Fate.CARRIED, Fate.REJECTED]
    assert world.job(KEY) == row
    assert len(inbox.rejected) == 1
    assert [alert.subject for alert in world.alerts.told] == ["Oncely: 2 dead letters"]


def test_a_letter_that_comes_again_after_the_row_was_sent_again_waits_anew() -> None:
    world = World()
    world.add_order()
    receive(world, json.dumps(charge()))
    world.clock.move(minutes=30)
    world.reconcile(KEY)

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.KEPT
    assert world.job(KEY).due_at == world.clock.now() + STRANDED_WAIT


def test_a_letter_that_our_own_side_failed_on_is_told_of_when_it_has_come_to_a_state() -> None:
    world = World()
    world.store = Meanwhile(world.store, "get", _no_answer)

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.LEFT
    assert world.alerts.told == []


def test_a_row_that_this_version_cannot_read_holds_up_no_neighbour() -> None:
    world = World()
    rows = iter(["unreadable"])

    def read() -> None:
        if next(rows, None):
            raise ValueError("no such status")

    world.store = Meanwhile(world.store, "get", read)

    poisoned, *neighbours = receive(world, *(json.dumps(charge(one)) for one in ("1", "2", "3")))

    assert poisoned.fate is Fate.LEFT
    assert "no such status" in poisoned.reason
    assert [letter.fate for letter in neighbours] == [Fate.KEPT, Fate.KEPT]
    assert len(world.alerts.told) == 1


def test_a_review_is_told_of_by_one_alert_of_its_own() -> None:
    world = World()
    receive(world, json.dumps(charge()))
    world.clock.move(hours=7)
    world.alerts.told.clear()

    receive(world, json.dumps(charge()))

    assert [alert.subject for alert in world.alerts.told] == [f"Oncely: {KEY} needs review"]


def test_a_batch_is_one_alert() -> None:
    world = World()

    receive(world, *[json.dumps(charge(str(number))) for number in range(10)])

    assert len(world.alerts.told) == 1


def _no_answer() -> None:
    raise UnavailableError("DynamoDB gave no answer")


class _FullRejects(FakeInbox):
    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        raise OSError("the rejects queue does not answer")


def test_one_letter_that_cannot_be_rejected_stays_and_its_neighbours_go_on() -> None:
    world = World()

    bad, good = receive(world, "not JSON", json.dumps(charge()), inbox=_FullRejects())

    assert bad.fate is Fate.LEFT
    assert good.fate is Fate.KEPT


def test_alert_names_a_job_by_its_key_and_any_other_message_by_its_id() -> None:
    world = World()

    receive(world, json.dumps(charge()), "not JSON")

    (alert,) = world.alerts.told
    names = [line.rpartition(": ")[0] for line in alert.text.splitlines()[:2]]
    assert names[0] == KEY
    assert names[1].startswith("1: ")


def test_letter_whose_row_never_stands_still_stays_in_the_queue() -> None:
    world = World()
    receive(world, json.dumps(charge()))
    world.clock.move(hours=1)
    world.reconcile(KEY)
    world.alerts.told.clear()
    store, reads = world.store, iter(range(99))

    def somebody_else_owns_it() -> None:
        store.jobs[KEY] = replace(store.jobs[KEY], owner=f"owner-{next(reads)}")

    world.store = Meanwhile(store, "get", somebody_else_owns_it)

    (letter,) = receive(world, json.dumps(charge()))

    assert (letter.fate, next(reads)) == (Fate.LEFT, 5)
    assert "kept changing" in letter.reason
    assert world.alerts.told == []
