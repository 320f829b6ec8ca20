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


def test_unclaimed_message_becomes_ready_row_that_is_due() -> None:
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


def test_ready_row_is_retried_later() -> None:
    world = World()
    world.add_order()
    world.payments.fails("prepare", Fault.REFUSED_CONNECTION)
    world.run(charge())
    due = world.job(KEY).due_at

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.KEPT
    assert due is not None
    assert (world.job(KEY).due_at or due) > due


def test_dead_letter_of_ended_job_changes_nothing() -> None:
    world = World()
    world.add_order()
    world.run(charge())
    before = world.job(KEY)

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.CARRIED
    assert world.job(KEY) == before


def test_repeated_dead_letter_without_claim_needs_review() -> None:
    world = World()
    receive(world, json.dumps(charge()))
    world.clock.move(hours=7)

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.REVIEW
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_outage_of_some_hours_needs_no_review() -> None:
    world = World()
    world.add_order()
    for _ in range(5):
        receive(world, json.dumps(charge()))
        world.clock.move(hours=1)

    job = world.until_quiet(KEY)

    assert job.status is Status.FINISHED


def test_claim_between_dead_letters_restarts_outage() -> None:
    world = World()
    world.add_order()
    receive(world, json.dumps(charge()))
    world.clock.move(hours=7)
    world.payments.fails("prepare", Fault.REFUSED_CONNECTION)
    world.run(charge())

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.KEPT
    assert isinstance(world.run(charge()), Finished)


def test_invalid_message_goes_to_rejects_queue() -> None:
    world = World()
    inbox = FakeInbox()

    (letter,) = receive(world, "not JSON", inbox=inbox)

    assert letter.fate is Fate.REJECTED
    assert inbox.rejected[0][0] == "not JSON"


def test_dead_letter_is_redelivered_when_alert_fails() -> None:
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


def test_dead_letter_after_resend_waits_from_now() -> None:
    world = World()
    world.add_order()
    receive(world, json.dumps(charge()))
    world.clock.move(minutes=30)
    world.reconcile(KEY)

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.KEPT
    assert world.job(KEY).due_at == world.clock.now() + STRANDED_WAIT


def test_dead_letter_stays_without_alert_when_store_fails() -> None:
    world = World()
    world.store = Meanwhile(world.store, "get", _no_answer)

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.LEFT
    assert world.alerts.told == []


def test_unreadable_row_does_not_block_other_dead_letters() -> None:
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


def test_review_sends_one_alert_of_its_own() -> None:
    world = World()
    receive(world, json.dumps(charge()))
    world.clock.move(hours=7)
    world.alerts.told.clear()

    receive(world, json.dumps(charge()))

    assert [alert.subject for alert in world.alerts.told] == [f"Oncely: {KEY} needs review"]


def test_batch_sends_one_alert() -> None:
    world = World()

    receive(world, *[json.dumps(charge(str(number))) for number in range(10)])

    assert len(world.alerts.told) == 1


def _no_answer() -> None:
    raise UnavailableError("DynamoDB gave no answer")


class _FullRejects(FakeInbox):
    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        raise OSError("the rejects queue does not answer")


def test_failed_reject_does_not_block_other_dead_letters() -> None:
    world = World()

    bad, good = receive(world, "not JSON", json.dumps(charge()), inbox=_FullRejects())

    assert bad.fate is Fate.LEFT
    assert good.fate is Fate.KEPT


def test_alert_names_job_by_key_and_other_message_by_id() -> None:
    world = World()

    receive(world, json.dumps(charge()), "not JSON")

    (alert,) = world.alerts.told
    names = [line.rpartition(": ")[0] for line in alert.text.splitlines()[:2]]
    assert names[0] == KEY
    assert names[1].startswith("1: ")


def test_dead_letter_stays_in_queue_when_row_keeps_changing() -> None:
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
