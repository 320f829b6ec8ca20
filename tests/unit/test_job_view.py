"""One job in plain words: the sentence that answers, its timeline, and nobody's address."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.contracts import CONTRACTS
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.repairs import Repair
from oncely.registry import Registry
from oncely.services.job_view import view_of
from tests.support.fakes import START
from tests.support.payments import Fault
from tests.support.world import World, charge
from tests.unit.samples import NOW, TICK, a_job
from tests.unit.shown_jobs import KEY, many, paid


def test_headline_says_whether_customer_was_charged() -> None:
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


def test_slow_charge_has_one_headline_and_timeline() -> None:
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


def test_view_shows_time_of_last_status_change() -> None:
    world = paid()
    world.clock.move(minutes=5)
    row = world.job(KEY)
    noted = row.apply(Event.NOTE, now=world.clock.now(), actor="ada", reason="looked at it")
    world.store.jobs[KEY] = noted

    view = world.inspector().show(KEY)

    assert view is not None
    whole = view.as_json()
    assert whole["since"] == whole["created_at"] != whole["updated_at"]


def test_list_entry_is_short_and_single_job_is_complete() -> None:
    (view,) = paid().inspector().find("18452").jobs

    short, whole = view.as_short_json(), view.as_json()

    assert short["found_by"] == "order"
    assert set(whole) - set(short) == {"timeline", "repairs", "contract", "message", "result"}
    assert str(whole["contract"]).startswith("payment.charge (queue payments)")


def test_addresses_are_masked_but_actor_names_are_not() -> None:
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


def test_job_of_removed_type_is_still_shown() -> None:
    world = many(1)
    (key,) = world.store.jobs
    world.store.jobs[key] = replace(world.store.jobs[key], job_type="old.thing")

    (view,) = world.inspector().page(status="needs_review").jobs

    assert view.contract is None
    assert {one.repair for one in view.repairs if one.allowed} == {Repair.FINISH, Repair.FAIL}


def test_view_of_one_job_is_complete() -> None:
    job = a_job(
        status=Status.FAILED,
        amount=1250,
        currency="eur",
        provider_ref="pi_1",
        result={"request_id": "req_1", "to": ["eve@x.io", 7, None], "code": "declined"},
        last_error="declined for eve@x.io",
        subject="18452",
        expires_at=NOW + timedelta(days=90),
        updated_at=NOW + timedelta(minutes=1),
    )

    shown = view_of(job, Registry(CONTRACTS), now=NOW).as_json()

    assert {name: shown[name] for name in shown.keys() - {"timeline", "repairs", "contract"}} == {
        "job_key": KEY,
        "job_type": "payment.charge",
        "status": "failed",
        "status_words": "failed",
        "headline": "Not charged: declined for e***@x.io",
        "subject": "18452",
        "customer_id": "customer_7",
        "amount": 1250,
        "currency": "eur",
        "amount_words": "12.50 EUR",
        "provider_ref": "pi_1",
        "request_id": "req_1",
        "result": {"request_id": "req_1", "to": ["e***@x.io", 7, None], "code": "declined"},
        "message": {"job": "payment.charge", "v": 1, "order_id": "18452"},
        "attempts": 1,
        "last_error": "declined for e***@x.io",
        "last_try": "2026-11-16T03:00:00.000Z",
        "next_look": None,
        "since": "2026-11-16T03:01:00.000Z",
        "created_at": "2026-11-16T03:00:00.000Z",
        "updated_at": "2026-11-16T03:01:00.000Z",
        "version": 1,
        "expires_at": "2027-02-14T03:00:00.000Z",
    }
    repairs: Any = shown["repairs"]
    assert repairs[-1] == {
        "repair": "again",
        "label": "Try again as a new attempt",
        "allowed": True,
        "why": "a new job is sent; it runs only while this one stays failed",
        "needs_reference": False,
    }


def test_view_shows_null_for_missing_values() -> None:
    job = a_job(status=Status.UNKNOWN, result=None, due_at=NOW, claimed_at=None)

    view = view_of(job, Registry(CONTRACTS), now=NOW)

    shown = view.as_json()
    nothing = ("result", "request_id", "last_error", "last_try", "amount_words", "expires_at")
    assert [shown[name] for name in nothing] == [None] * len(nothing)
    assert shown["next_look"] == "2026-11-16T03:00:00.000Z"
    assert "found_by" not in view.as_short_json()


@pytest.mark.parametrize("recorded", [{"amount": 1250}, {"currency": "eur"}])
def test_amount_is_shown_only_with_currency(recorded: dict[str, object]) -> None:
    assert view_of(a_job(**recorded), Registry(CONTRACTS), now=NOW).amount_words is None


def test_non_text_request_id_is_not_shown() -> None:
    view = view_of(a_job(result={"request_id": 7}), Registry(CONTRACTS), now=NOW)

    assert view.as_json()["request_id"] is None


@pytest.mark.parametrize(
    ("job", "headline"),
    [
        (a_job(status=Status.FINISHED), "Done."),
        (a_job(status=Status.FINISHED, attempts=2), "Done. It took 2 tries."),
        (a_job(status=Status.FAILED), "Not done: no reason was recorded"),
        (
            a_job(status=Status.NEEDS_REVIEW, last_error="two were found"),
            "A person must decide: two were found",
        ),
        (a_job(lease_until=NOW + TICK), "A worker has it until 2026-11-16 03:00 UTC."),
        (
            a_job(lease_until=NOW),
            "Its worker is gone; the provider is asked what became of it.",
        ),
        (
            a_job(status=Status.READY, last_error="timeout"),
            "Not done yet: it is tried again by itself.",
        ),
        (a_job(status=Status.READY), "Not done yet: it waits for a worker."),
    ],
)
def test_headline_follows_status_in_one_sentence(job: Job, headline: str) -> None:
    of_a_payment = view_of(job, Registry(CONTRACTS), now=NOW).headline

    assert view_of(job, Registry(()), now=NOW).headline == headline
    if job.status is not Status.FINISHED:
        assert of_a_payment == headline.replace("done", "charged")


@pytest.mark.parametrize("deployed", [True, False])
def test_unreadable_review_needs_reference_only_for_known_type(*, deployed: bool) -> None:
    job = a_job(status=Status.NEEDS_REVIEW, message={"job": "payment.charge", "v": 99})

    view = view_of(job, Registry(CONTRACTS if deployed else ()), now=NOW)

    needing = {one.repair for one in view.repairs if one.needs_reference}
    assert needing == ({Repair.FINISH} if deployed else set())


def test_job_type_without_resubmission_offers_none() -> None:
    message = {"job": "receipt.send", "v": 1, "order_id": "18452"}
    job = a_job(status=Status.FAILED, job_type="receipt.send", message=message)

    view = view_of(job, Registry(CONTRACTS), now=NOW)

    assert not any(one.allowed for one in view.repairs)
