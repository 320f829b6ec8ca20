"""sync.import: every page once, whatever happens to the worker."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from oncely.core.effect_outcomes import NotSent
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Status
from oncely.core.outcomes import NeedsReview
from tests.support.crash_points import SimulatedCrashError
from tests.support.fakes import START, FakeClock, FakeMessageSender
from tests.support.in_memory_stack import InMemoryStack
from tests.support.outcomes import is_continued, is_duplicate, is_finished, is_retried

KEY = "sync.import:hubspot:nightly"
IMPORT = {"job": "sync.import", "v": 1, "source": "hubspot", "batch_id": "nightly"}


def contacts_sent(world: InMemoryStack) -> list[str]:
    sent = (json.loads(body) for body in world.outbox.sent)
    return [message["source_id"] for message in sent if message["job"] == "sync.contact"]


def pages_read(world: InMemoryStack) -> int:
    return sum(step == "list_contacts" for step, _ in world.crm.calls)


def test_every_contact_is_sent_once_with_progress_on_row(world: InMemoryStack) -> None:
    ids = world.crm.add_contacts(250)

    outcome = world.run(IMPORT)

    assert is_finished(outcome)
    assert contacts_sent(world) == ids
    assert outcome.result == {"after": None, "pages": 3, "seen": 250, "sent": 250}
    assert world.job(KEY).progress == {"after": "200", "pages": 2, "seen": 200, "sent": 200}
    assert is_duplicate(world.run(IMPORT))


def test_import_resumes_after_crash_between_pages(world: InMemoryStack) -> None:
    ids = world.crm.add_contacts(1000)
    page = world.crm.list_contacts
    world.crm.list_contacts = lambda *, after: (
        _crash() if pages_read(world) == 3 else page(after=after)
    )
    with pytest.raises(SimulatedCrashError):
        world.run(IMPORT)
    world.crm.list_contacts = page
    world.clock.advance(hours=1)
    world.run(IMPORT)

    assert is_finished(world.run(IMPORT))
    assert sorted(set(contacts_sent(world)), key=int) == ids
    assert len(contacts_sent(world)) == 1000
    assert pages_read(world) == 10


def test_import_resumes_after_crash_within_page(world: InMemoryStack) -> None:
    world.crm.add_contacts(1000)
    queue = world.outbox
    world.outbox = _CrashingSender(320)
    with pytest.raises(SimulatedCrashError):
        world.run(IMPORT)
    queue.sent += world.outbox.sent
    world.outbox = queue
    world.clock.advance(hours=1)
    world.run(IMPORT)
    outcome = world.run(IMPORT)

    worked = [world.run(body) for body in queue.sent if "sync.contact" in body]

    assert is_finished(outcome)
    assert len(queue.sent) == 1020
    assert sum(is_finished(one) for one in worked) == 1000
    assert sum(is_duplicate(one) for one in worked) == 20
    assert sum(table == "records" for table, _ in world.rows.all()) == 1000
    assert pages_read(world) == 11  # the page in which it died is read again, but none before it


def test_import_continues_in_new_message_when_time_is_short(world: InMemoryStack) -> None:
    world.crm.add_contacts(500)
    page = world.crm.list_contacts

    def slow_page(*, after: str | None) -> object:
        world.clock.advance(seconds=15)
        return page(after=after)

    world.crm.list_contacts = slow_page
    first = world.run(IMPORT)
    continuation = json.loads(world.outbox.sent[-1])
    second = world.run(world.outbox.sent.pop())

    assert is_continued(first)
    assert continuation == IMPORT
    assert is_finished(second)
    assert pages_read(world) == 5
    assert world.job(KEY).attempts == 1


def test_rate_limit_delays_import_until_named_time(world: InMemoryStack) -> None:
    world.crm.add_contacts(250)
    world.crm.fail_next("list_contacts", NotSent("429", retry_after=timedelta(seconds=30)))

    outcome = world.run(IMPORT)

    assert is_retried(outcome)
    assert outcome.until == world.clock.now() + timedelta(seconds=30)
    assert is_finished(world.run(IMPORT))


def test_page_is_retried_when_message_is_not_sent(world: InMemoryStack) -> None:
    world.crm.add_contacts(150)
    world.outbox.fails_at = frozenset({7})

    outcome = world.run(IMPORT)
    world.outbox.fails_at = frozenset()
    world.run(IMPORT)

    assert is_retried(outcome)
    assert world.job(KEY).status is Status.FINISHED
    assert len(set(contacts_sent(world))) == 150


def test_only_changed_contacts_are_imported(world: InMemoryStack) -> None:
    world.crm.add_contacts(150)
    world.crm.clock = FakeClock()
    world.crm.clock.advance(days=1)
    world.crm.update("7", email="new@example.com")

    world.run({**IMPORT, "updated_since": (START + timedelta(hours=1)).isoformat()})

    assert contacts_sent(world) == ["7"]


def test_contact_is_imported_once_when_sent_by_two_batches(world: InMemoryStack) -> None:
    ids = world.crm.add_contacts(20)
    world.run(IMPORT)
    world.run({**IMPORT, "batch_id": "again"})
    sent = [body for body in world.outbox.sent if "sync.contact" in body]

    outcomes = [world.run(body) for body in sent]

    assert sum(is_finished(outcome) for outcome in outcomes) == len(ids)
    assert sum(is_duplicate(outcome) for outcome in outcomes) == len(ids)


def _crash() -> NoReturn:
    raise SimulatedCrashError


class _CrashingSender(FakeMessageSender):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def send(self, bodies: Sequence[str], *, groups: Sequence[str | None] = ()) -> list[bool]:
        left = self.number - len(self.sent)
        taken = super().send(bodies[:left])
        return taken if left >= len(bodies) else _crash()


def test_only_last_page_is_resent_after_crash_at_end(world: InMemoryStack) -> None:
    world.crm.add_contacts(250)
    store, swap = world.store, world.store.swap

    def dies_at_the_end(before: JobRow, after: JobRow, **more: Any) -> object:  # noqa: ANN401  # the store's own
        return _crash() if after.status is Status.FINISHED else swap(before, after, **more)

    store.swap = dies_at_the_end
    with pytest.raises(SimulatedCrashError):
        world.run(IMPORT)
    store.swap = swap
    world.clock.advance(hours=1)
    world.run(IMPORT)

    outcome = world.run(IMPORT)

    assert is_finished(outcome)
    assert outcome.result == {"after": None, "pages": 3, "seen": 250, "sent": 250}
    assert pages_read(world) == 4


@pytest.mark.parametrize("since", [None, START.isoformat()])
def test_stuck_cursor_needs_review(world: InMemoryStack, since: str | None) -> None:
    world.crm.add_contacts(250)
    first = world.crm.list_contacts(after=None)

    def the_same_page(**_: object) -> object:
        world.clock.advance(seconds=15)
        return first

    world.crm.list_contacts = world.crm.list_changed = the_same_page

    outcome = world.run(IMPORT if since is None else {**IMPORT, "updated_since": since})

    assert isinstance(outcome, NeedsReview)
    assert "does not advance" in outcome.reason
    assert len(contacts_sent(world)) == 100
