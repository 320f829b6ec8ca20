"""One job in plain words: the sentence that answers, its timeline, and nobody's address."""

from dataclasses import replace
from typing import Any

from oncely.domain.lifecycle import Event
from oncely.domain.repairs import Repair
from tests.support.fakes import START
from tests.support.payments import Fault
from tests.support.world import World, charge
from tests.unit.shown_jobs import KEY, many, paid


def test_the_first_sentence_says_whether_the_customer_was_charged() -> None:
    declined, unknown = World(), World()
    for world in (declined, unknown):
        world.add_order()
    declined.payments.declines = True
    unknown.payments.fails("execute", Fault.TIMEOUT_BEFORE)

    told = []
    for world in (declined, unknown):
        world.run(charge())
        view = world.inspector().show(KEY)
        assert view is not None
        told.append(view.headline)

    assert told[0].startswith("Not charged: ")
    # What the connection said is told further down: it answers nobody's question.
    assert told[1] == "Not known yet whether it was charged: the provider is asked."


def test_a_charge_that_took_long_is_told_in_one_sentence_and_a_timeline() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_BEFORE)
    world.run(charge())
    world.clock.move(minutes=1)
    world.until_quiet(KEY)

    view = world.inspector().show(KEY)

    assert view is not None
    told = view.as_json()
    assert told["headline"] == "Charged once: 12.50 EUR (ch_pi_1). It took 2 tries."
    assert (told["status_words"], told["amount_words"]) == ("done", "12.50 EUR")
    assert (told["subject"], told["customer_id"]) == ("18452", "customer_7")
    timeline: Any = told["timeline"]
    assert [line["event"] for line in timeline][:3] == ["claim", "keep", "lose"]
    assert [line["event"] for line in timeline][-1] == "confirm"
    assert sorted(line["at"] for line in timeline) == [line["at"] for line in timeline]
    assert told["next_look"] is None


def test_view_shows_since_when_the_job_has_its_status() -> None:
    world = paid()
    world.clock.move(minutes=5)
    world.publisher().publish(KEY)

    view = world.inspector().show(KEY)

    assert view is not None
    whole = view.as_json()
    assert whole["since"] == whole["created_at"] != whole["updated_at"]


def test_a_list_is_short_and_one_job_is_whole() -> None:
    (view,) = paid().inspector().find("18452").jobs

    short, whole = view.as_short_json(), view.as_json()

    assert short["found_by"] == "order"
    assert set(whole) - set(short) == {"timeline", "repairs", "contract", "message", "result"}
    assert str(whole["contract"]).startswith("payment.charge (queue payments)")


def test_addresses_in_messages_and_results_are_masked_and_names_of_people_are_not() -> None:
    world = World()
    record = {
        "id": "4419",
        "updatedAt": "2026-11-16T03:00:00Z",
        "properties": {"email": "eve@x.io"},
    }
    message = {"job": "sync.contact", "v": 1, "source": "hubspot", "source_id": "4419"}
    world.run({**message, "event_id": "e1", "record": record})
    (key,) = world.store.jobs
    job = world.job(key)
    noted = job.apply(
        Event.NOTE, now=START, actor="ada@example.com", reason="bob@example.com called"
    )
    world.store.jobs[key] = noted

    view = world.inspector().show(key)

    assert view is not None
    text = str(view.as_json())
    assert "eve@x.io" not in text
    assert "e***@x.io" in text
    assert "bob@example.com" not in text
    assert "ada@example.com" in text


def test_a_job_of_a_type_that_is_gone_is_still_shown() -> None:
    world = many(1)
    (key,) = world.store.jobs
    world.store.jobs[key] = replace(world.store.jobs[key], job_type="old.thing")

    (view,) = world.inspector().page(status="needs_review").jobs

    assert view.contract is None
    assert {one.repair for one in view.repairs if one.allowed} == {Repair.FINISH, Repair.FAIL}
