"""After an end: event, follow-ups, archive, and only then an expiry; safe to repeat anywhere."""

from datetime import timedelta
from threading import Barrier

import pytest

from oncely.domain.answers import Refused
from oncely.domain.decide import late_answer
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey, job_key
from oncely.domain.lifecycle import Status
from oncely.domain.repairs import Repair
from oncely.services.outcomes import Failed, Finished, NothingSent
from oncely.services.publish import SIDE_BY_SIDE
from oncely.services.repair_order import Repaired
from tests.support.mortal import DiedError, Fate, Meanwhile, Mortal
from tests.support.repairs import repair
from tests.support.world import World, charge

KEY = "payment.charge:order_18452"


def finished() -> World:
    world = World()
    world.add_order()
    world.run(charge())
    return world


def publish(world: World) -> bool:
    return world.publisher().publish(world.job(KEY).job_key)


def test_an_ended_job_is_published_archived_and_then_expires() -> None:
    world = finished()

    publish(world)

    job = world.job(KEY)
    assert [one.job_key for one in world.bus.published] == [KEY]
    assert world.archive.jobs[job.job_key].status is Status.FINISHED
    assert job.expires_at == world.clock.now() + timedelta(days=90)
    assert job.due_at is None


def test_publishing_twice_changes_nothing() -> None:
    world = finished()
    publish(world)
    before = world.job(KEY)

    again = publish(world)

    assert not again
    assert world.job(KEY) == before
    assert len(world.bus.published) == 1


def test_a_review_is_neither_published_nor_archived_and_never_expires() -> None:
    world = World()
    world.run(charge())

    publish(world)

    assert world.bus.published == []
    assert world.archive.jobs == {}
    assert world.job(KEY).expires_at is None


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("port", ["bus", "outbox", "archive", "store"])
def test_death_between_any_two_steps_is_mended_by_the_next_look(port: str, *, after: bool) -> None:
    world = finished()
    working = getattr(world, port)
    call = 2 if port == "store" else 1
    setattr(world, port, Mortal(working, Fate(call=call, after=after)))
    with pytest.raises(DiedError):
        publish(world)
    setattr(world, port, working)
    died = world.job(KEY)
    assert died.expires_at is None or KEY in world.archive.jobs
    world.clock.move(hours=1)

    world.reconcile(KEY)

    job = world.job(KEY)
    assert job.expires_at is not None
    assert world.archive.jobs[job.job_key].status is Status.FINISHED
    assert world.bus.published
    assert any("receipt.send" in body for body in world.outbox.sent)


def test_a_job_that_the_archive_cannot_take_does_not_expire() -> None:
    world = finished()
    world.archive.broken = True

    with pytest.raises(Exception, match="S3 gave no answer"):
        publish(world)

    assert world.job(KEY).expires_at is None
    assert world.job(KEY).due_at is not None


@pytest.mark.parametrize("declines", [False, True])
def test_a_replay_after_the_row_has_expired_is_answered_from_the_archive(*, declines: bool) -> None:
    world = World()
    world.add_order()
    world.payments.declines = declines
    first = world.run(charge())
    assert isinstance(first, Failed if declines else Finished)
    publish(world)
    world.store.expire(KEY)
    world.add_order()  # as if nothing had ever been paid
    world.payments.declines = False
    calls = len(world.payments.calls)

    replay = world.run(charge())

    assert isinstance(replay, type(first))
    assert replay.result.items() >= first.result.items()
    assert len(world.payments.calls) == calls
    events = [entry.event for entry in world.job(KEY).evidence]
    assert events[0] == "keep", "the history goes on"


def test_a_job_is_not_run_while_the_archive_cannot_be_asked() -> None:
    world = World()
    world.add_order()
    world.archive.broken = True

    outcome = world.run(charge())

    assert isinstance(outcome, NothingSent)
    assert world.payments.calls == []


def test_a_natural_effect_does_not_ask_the_archive() -> None:
    world = World()
    world.archive.broken = True
    record = {"id": "1", "properties": {}, "updatedAt": "2026-11-16T03:00:00Z"}

    outcome = world.run(
        {
            "job": "sync.contact",
            "v": 1,
            "source": "hubspot",
            "source_id": "1",
            "event_id": "1",
            "record": record,
        }
    )

    assert isinstance(outcome, Finished)


def test_a_publisher_that_was_held_up_does_not_put_a_contradicted_end_back() -> None:
    world = finished()
    bus, job = world.bus, world.job(KEY)

    def contradicted_ruled_and_published() -> None:
        world.bus = bus
        told = late_answer(job, Refused("it was never captured", code="gone"), fence=1)
        world.store.swap(job, told.on(job, now=world.clock.now(), actor="worker"))
        world.add_order(status="cancelled")
        world.payments.settle("pi_1", status="canceled")
        assert isinstance(repair(world, Repair.FAIL), Repaired)
        assert publish(world)

    world.bus = Meanwhile(bus, "publish", contradicted_ruled_and_published)  # type: ignore[assignment]  # the same port

    assert not publish(world)

    assert world.job(KEY).status is Status.FAILED
    assert world.archive.jobs[job.job_key].status is Status.FAILED


def many(number: int) -> tuple[World, list[JobKey]]:
    world = World()
    for one in range(number):
        world.add_order(order_id=str(one))
        world.run(charge(order_id=str(one)))
    return world, [job_key("payment.charge", str(one), prefix="order_") for one in range(number)]


def test_the_ends_of_a_batch_are_published_side_by_side() -> None:
    world, keys = many(SIDE_BY_SIDE)
    together = Barrier(SIDE_BY_SIDE)
    # Each waits for all the others: one at a time, none would ever go on.
    world.bus = Meanwhile(world.bus, "publish", lambda: together.wait(timeout=10))  # type: ignore[assignment]  # the same port

    assert world.publisher().publish_all(keys) == {}

    assert all(world.job(key).expires_at is not None for key in keys)


def test_one_that_fails_is_named_and_its_neighbours_are_published() -> None:
    world, keys = many(3)
    keep = world.archive.keep

    def breaks_on_the_second(job: Job) -> None:
        if job.job_key == keys[1]:
            raise ValueError("poisoned")
        keep(job)

    world.archive.keep = breaks_on_the_second  # type: ignore[method-assign]  # a fault of this test

    failed = world.publisher().publish_all(keys)

    assert list(failed) == [keys[1]]
    assert [world.job(key).expires_at is not None for key in keys] == [True, False, True]


def test_a_job_that_a_batch_shows_twice_is_published_once() -> None:
    world, keys = many(1)

    world.publisher().publish_all([*keys, *keys])

    assert len(world.bus.published) == 1


def test_end_stays_due_when_a_queue_does_not_take_its_follow_up() -> None:
    world = finished()
    world.outbox.refuses = frozenset({0})

    with pytest.raises(UnavailableError, match="did not take a follow-up"):
        publish(world)

    assert world.archive.jobs == {}
    assert world.job(KEY).due_at is not None
