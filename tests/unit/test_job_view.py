"""The view of one job: headline, timeline, and masked addresses."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.contracts.registry import JobRegistry
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.operate.job_lists import JobFilter
from oncely.operate.job_view import JobView, build_view
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.unit.job_view_fixtures import KEY, many_reviews, world_with_paid_job
from tests.unit.samples import NOW, TICK, make_job


def view_of(job: JobRow) -> JobView:
    return build_view(job, JobRegistry(SHIPPED_JOBS), now=NOW)


def shown_job(world: InMemoryStack, key: str = KEY) -> JobView:
    view = world.inspector().get(key)
    assert view is not None
    return view


def test_headline_says_whether_customer_was_charged(world: InMemoryStack) -> None:
    world.payments.declines = True
    world.run(charge_message())
    assert shown_job(world).headline.startswith("Not charged: ")

    world.add_order("2")
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_BEFORE)
    world.run(charge_message("2"))
    headline = "Unknown whether it was charged. Oncely is looking it up at the provider."
    assert shown_job(world, "payment.charge:order_2").headline == headline


def test_slow_charge_has_one_headline_and_timeline(world: InMemoryStack) -> None:
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_BEFORE)
    world.run(charge_message())
    world.clock.advance(minutes=1)
    world.run_until_idle(KEY)

    shown = shown_job(world).to_json()

    assert shown["headline"] == "Charged once: 12.50 EUR (ch_1). It took 2 attempts."
    assert (shown["status_label"], shown["amount_label"]) == ("done", "12.50 EUR")
    assert (shown["subject"], shown["customer_id"]) == ("18452", "customer_7")
    timeline: Any = shown["timeline"]
    assert [line["event"] for line in timeline][:3] == ["claim", "checkpoint", "mark_unknown"]
    assert [line["event"] for line in timeline][-1] == "confirm"
    assert sorted(line["at"] for line in timeline) == [line["at"] for line in timeline]
    assert shown["next_check_at"] is None


def test_view_shows_time_of_last_status_change() -> None:
    world = world_with_paid_job()
    world.clock.advance(minutes=5)
    row = world.job(KEY)
    noted = row.apply(Event.NOTE, now=world.clock.now(), actor="ada", reason="looked at it")
    world.store.jobs[KEY] = noted

    full = shown_job(world).to_json()

    assert full["since"] == full["created_at"] != full["updated_at"]


def test_list_entry_is_short_and_single_job_is_complete() -> None:
    (view,) = world_with_paid_job().inspector().search("18452").jobs

    short, full = view.to_summary_json(), view.to_json()

    assert short["matched_by"] == "order"
    assert set(full) - set(short) == {
        *("timeline", "timeline_error", "links", "repairs", "contract", "message", "result")
    }
    contract: Any = full["contract"]
    assert (contract["job_type"], contract["queue"]) == ("payment.charge", "payments")


def test_addresses_are_masked_but_actor_names_are_not() -> None:
    world = InMemoryStack()
    world.enqueuer().enqueue(charge_message())
    (key,) = world.store.jobs
    message: Any = {**charge_message(), "email": "eve@x.io"}
    job = replace(world.job(key), message=message)
    note: Any = {"actor": "ada@example.com", "reason": "bob@example.com called"}
    world.store.jobs[key] = job.apply(Event.NOTE, now=START, **note)

    text = str(shown_job(world, key).to_json())

    assert ("eve@x.io" in text, "e***@x.io" in text) == (False, True)
    assert ("bob@example.com" in text, "ada@example.com" in text) == (False, True)


def test_job_of_removed_type_is_still_shown() -> None:
    world = many_reviews(1)
    (key,) = world.store.jobs
    world.store.jobs[key] = replace(world.store.jobs[key], job_type="old.thing")

    (view,) = world.inspector().list_page(JobFilter(status="needs_review")).jobs

    assert view.contract is None
    allowed = {one.repair for one in view.repairs if one.allowed}
    assert allowed == {Repair.MARK_FINISHED, Repair.MARK_FAILED}


def test_view_of_one_job_is_complete() -> None:
    job = make_job(
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

    shown = view_of(job).to_json()

    assert {name: shown[name] for name in shown.keys() - {"timeline", "repairs", "contract"}} == {
        "job_key": KEY,
        "job_type": "payment.charge",
        "status": "failed",
        "status_label": "failed",
        "headline": "Not charged: declined for e***@x.io.",
        "next_step": "Resubmit it once the cause is fixed.",
        "subject": "18452",
        "customer_id": "customer_7",
        "amount": 1250,
        "currency": "eur",
        "amount_label": "12.50 EUR",
        "provider_ref": "pi_1",
        "provider_url": "https://dashboard.stripe.com/payments/pi_1",
        "timeline_error": None,
        "links": [
            {
                "provider": "Stripe",
                "reference": "pi_1",
                "url": "https://dashboard.stripe.com/payments/pi_1",
            }
        ],
        "request_id": "req_1",
        "result": {"request_id": "req_1", "to": ["e***@x.io", 7, None], "code": "declined"},
        "message": {"job": "payment.charge", "v": 1, "order_id": "18452"},
        "runs": 1,
        "attempts": 1,
        "last_error": "declined for e***@x.io",
        "claimed_at": "2026-11-16T03:00:00.000Z",
        "next_check_at": None,
        "run_at": None,
        "since": "2026-11-16T03:01:00.000Z",
        "created_at": "2026-11-16T03:00:00.000Z",
        "updated_at": "2026-11-16T03:01:00.000Z",
        "version": 1,
        "expires_at": "2027-02-14T03:00:00.000Z",
    }
    repairs: Any = shown["repairs"]
    assert repairs[-2] == {
        "repair": "resubmit",
        "label": "Resubmit as a new job",
        "allowed": True,
        "reason": "sends a new job, which runs only while this one stays failed",
        "needs_reference": False,
        "needs_time": False,
    }


def test_view_shows_null_for_missing_values() -> None:
    view = view_of(make_job(status=Status.UNKNOWN, result=None, due_at=NOW, claimed_at=None))

    shown = view.to_json()
    nothing = ("result", "request_id", "last_error", "claimed_at", "amount_label", "expires_at")
    assert [shown[name] for name in nothing] == [None] * len(nothing)
    assert shown["next_check_at"] == "2026-11-16T03:00:00.000Z"
    assert "matched_by" not in view.to_summary_json()


@pytest.mark.parametrize("recorded", [{"amount": 1250}, {"currency": "eur"}])
def test_amount_is_shown_only_with_currency(recorded: dict[str, object]) -> None:
    assert view_of(make_job(**recorded)).amount_label is None


def test_non_text_request_id_is_not_shown() -> None:
    assert view_of(make_job(result={"request_id": 7})).to_json()["request_id"] is None


@pytest.mark.parametrize(
    ("job", "headline"),
    [
        (make_job(status=Status.FINISHED), "Done."),
        (make_job(status=Status.FINISHED, attempts=2), "Done. It took 2 attempts."),
        (make_job(status=Status.FAILED), "Not done: no reason was recorded."),
        (make_job(status=Status.NEEDS_REVIEW, last_error="two were found"), "Two were found."),
        (
            make_job(lease_until=NOW + TICK),
            "Running. The worker's lease ends at 2026-11-16 03:00 UTC.",
        ),
        (
            make_job(lease_until=NOW),
            "The worker's lease expired. Oncely is looking up the outcome at the provider.",
        ),
        (
            make_job(status=Status.READY, last_error="timeout"),
            "Not done yet. It will be retried automatically.",
        ),
        (make_job(status=Status.READY), "Not done yet. It is waiting for a worker."),
    ],
)
def test_headline_follows_status_in_one_sentence(job: JobRow, headline: str) -> None:
    assert build_view(job, JobRegistry(()), now=NOW).headline == headline
    if job.status is not Status.FINISHED:
        assert view_of(job).headline == headline.replace("done", "charged")


def test_job_type_without_resubmission_offers_none() -> None:
    message = {"job": "receipt.send", "v": 1, "order_id": "18452"}
    job = make_job(status=Status.FAILED, job_type="receipt.send", message=message)
    assert not any(one.allowed for one in view_of(job).repairs)


@pytest.mark.parametrize(
    ("ref", "scope", "url"),
    [
        ("pi_1", "stripe:live:ab12", "https://dashboard.stripe.com/payments/pi_1"),
        ("pi_1", "stripe:test:ab12", "https://dashboard.stripe.com/test/payments/pi_1"),
        ("../x?pi_1", "stripe:live:ab12", None),
        (None, "stripe:live:ab12", None),
    ],
)
def test_view_links_to_payment_in_provider_console(
    world: InMemoryStack, ref: str | None, scope: str, url: str | None
) -> None:
    job = make_job(provider_ref=ref, key_scope=scope)
    view = build_view(job, world.registry, now=NOW)
    assert view.to_json()["provider_url"] == url


def test_timeline_says_nothing_twice() -> None:
    world = InMemoryStack()
    world.add_order()
    wrong = {**charge_message(), "amount": 1}
    world.enqueuer().enqueue(wrong)
    world.run(wrong)

    entries: Any = shown_job(world).to_json()["timeline"]
    shown = {one["event_label"]: one["reason"] for one in entries}

    assert shown["enqueued"] == ""
    refused = shown["a message was refused; nothing was changed"]
    assert refused.startswith("the message has amount 1")
