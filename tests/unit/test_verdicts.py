"""The verdict on an order or a customer, and the sentence and next step of a job."""

from datetime import timedelta

import pytest

from oncely.alerts.headlines import next_step, plain_reason, sentence
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.operate.verdicts import verdicts
from tests.support.audited_shop import AuditedShop
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.unit.samples import NOW, make_job


@pytest.fixture
def world() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order("1")
    return world


def sentences(world: InMemoryStack, text: str) -> list[str]:
    return [one.sentence for one in world.inspector().search(text).verdicts]


def test_order_has_one_sentence_about_charge_receipt_and_refund(world: InMemoryStack) -> None:
    world.run(charge_message("1"))
    world.run({"job": "receipt.send", "v": 1, "order_id": "1"})

    (verdict,) = world.inspector().search("1").verdicts

    assert verdict.sentence == (
        "Order 1: charged once, 12.50 EUR on 16 Nov 2026; receipt sent; no refund recorded."
    )
    assert (verdict.certain, verdict.is_duplicate) == (True, False)
    assert verdict.basis.endswith("Read 2026-11-16 03:00 UTC.")
    assert verdict.job_keys == ("payment.charge:order_1", "receipt.send:order_1")


@pytest.mark.parametrize("status", ["unknown", "needs review", "waiting"])
def test_unresolved_charge_makes_it_not_certain_yet(world: InMemoryStack, status: str) -> None:
    if status == "unknown":
        world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    elif status == "needs review":
        world.add_order("1", status="cancelled")
    else:
        world.rows.clear()
    world.run(charge_message("1"))

    (verdict,) = world.inspector().search("1").verdicts

    assert not verdict.certain
    assert verdict.text == "not certain yet: no charge is confirmed yet"


def test_unknown_receipt_makes_it_not_certain_yet(world: InMemoryStack) -> None:
    world.run(charge_message("1"))
    world.mail.fail_next(ProviderFault.TIMEOUT_AFTER)
    world.run({"job": "receipt.send", "v": 1, "order_id": "1"})
    (verdict,) = world.inspector().search("1").verdicts
    assert not verdict.certain
    assert "unknown whether the receipt was sent" in verdict.text


@pytest.mark.parametrize("text", ["pi_1", "re_1", "payment.charge:order_1"])
def test_verdict_rests_on_all_jobs_of_the_order_whatever_was_searched(
    world: InMemoryStack, text: str
) -> None:
    """A search by a charge finds neither its refund nor another charge of the order."""
    world.run(charge_message("1"))
    world.run(world.request_refund("r", order_id="1", amount=50))
    again = make_job(
        job_key=JobKey("payment.charge:order_1:2"),
        status=Status.FINISHED,
        subject="1",
        amount=1250,
        currency="eur",
        provider_ref="pi_2",
    )
    world.store.jobs[again.job_key] = again

    found = world.inspector().search(text)

    (verdict,) = found.verdicts
    assert len(found.jobs) == 1, "an exact hit opens its job"
    assert verdict.is_duplicate
    assert "charged 2 times" in verdict.sentence
    assert "0.50 EUR refunded" in verdict.sentence


def test_row_that_cannot_be_read_makes_it_not_certain_yet(world: InMemoryStack) -> None:
    world.run(charge_message("1"))
    views = world.inspector().search("1").jobs
    (verdict,) = verdicts(views, at=NOW, unreadable=1)
    assert not verdict.certain
    assert verdict.text.endswith("; 1 row cannot be read")


def test_customer_has_a_verdict_over_all_orders(world: InMemoryStack) -> None:
    world.run(charge_message("1"))
    world.add_order("2")
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message("2"))

    first, *others = sentences(world, "customer_7")

    assert first == (
        "Customer customer_7: 2 orders, none charged more than once; 1 not certain yet."
    )
    assert len(others) == 2


@pytest.mark.parametrize(
    ("reason", "plain"),
    [
        ("order 1 cannot be charged", "order 1 cannot be charged"),
        ("confirming pi_1: HTTP 500 no_code: x (request req_1)", "confirming pi_1"),
        ("ValueError: half of it", "an unexpected error"),
        ("voiding it: ConnectTimeout: 10 s", "voiding it"),
    ],
)
def test_raw_error_is_no_part_of_the_headline(reason: str, plain: str) -> None:
    assert plain_reason(reason) == plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two were found", "Two were found."),
        ("payment.charge:order_1 has no row", "payment.charge:order_1 has no row."),
        ("pi_1 was refunded!", "pi_1 was refunded!"),
        ("", "."),
    ],
)
def test_ids_are_never_capitalized(text: str, shown: str) -> None:
    assert sentence(text) == shown


LATER = NOW + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("job", "allowed", "step"),
    [
        (make_job(status=Status.FINISHED), (), ""),
        (make_job(status=Status.FAILED), (), ""),
        (
            make_job(status=Status.FAILED),
            (Repair.RESUBMIT,),
            "Resubmit it once the cause is fixed.",
        ),
        (
            make_job(status=Status.UNKNOWN, due_at=LATER),
            (),
            "No action needed. Next check at 2026-11-16 03:05 UTC.",
        ),
        (make_job(status=Status.READY, due_at=NOW), (), "No action needed. Next try now."),
        (
            make_job(status=Status.NEEDS_REVIEW),
            (Repair.LOOK_UP,),
            "Look it up at the provider, then mark the job charged or failed.",
        ),
        (
            make_job(status=Status.NEEDS_REVIEW),
            (),
            "Find out whether it was charged, then mark the job.",
        ),
        (
            make_job(status=Status.NEEDS_REVIEW, fence=0),
            (),
            "Nothing was sent. Send a valid message, or mark the job failed.",
        ),
        (make_job(), (), ""),
    ],
)
def test_next_step_follows_the_status(job: JobRow, allowed: tuple[Repair, ...], step: str) -> None:
    assert next_step(job, allowed, done_verb="charged", now=NOW) == step


def test_order_that_never_came_says_what_to_create() -> None:
    world = InMemoryStack()
    world.run(charge_message("9999"))
    world.clock.advance(days=1)
    world.reconcile("payment.charge:order_9999")

    view = world.inspector().get("payment.charge:order_9999")

    assert view is not None
    assert view.headline == "Waited 15 minutes for order 9999 to exist."
    assert view.next_step == (
        "Nothing was sent. Create what is missing and reopen the job, or mark the job failed."
    )


def test_lookup_finds_what_our_records_do_not_know() -> None:
    shop = AuditedShop()
    shop.plant(shop.charge("45"))
    key = "payment.charge:order_45"
    before = shop.job("45")
    (verdict,) = shop.world.inspector().search("45").verdicts
    assert (verdict.certain, verdict.is_duplicate, verdict.charge_keys) == (True, False, (key,))

    answer = shop.world.app().provider_queries.look_up(key)
    result = run_cli("find", "45", "--lookup", connection=FakeStackConnection(shop.world))

    assert answer.outcome == "does not match the job"
    assert "was made for the same job" in answer.detail
    assert answer.detail in result.stdout
    assert shop.job("45") == before, "a lookup writes nothing"
