"""The audit of payments finds what was planted and nothing else, and continues where it stopped."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from oncely.core.ended_jobs import erase_if_complete
from oncely.core.errors import UnavailableError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.money import Money
from oncely.operate.audit_book import AuditBook
from oncely.plugins.ledger import DifferenceKind, EntryKind, LedgerSum
from oncely.providers.stripe import payment_ledger
from tests.support.audited_shop import PERIOD, PLANTS, PROVIDERS, AuditedShop
from tests.support.fakes import START
from tests.support.in_memory_stack import charge_message
from tests.support.provider_fault import ProviderFault


@pytest.fixture
def shop() -> AuditedShop:
    return AuditedShop()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", DifferenceKind)
@pytest.mark.parametrize("archived", [True, False], ids=["history", "rows only"])
def test_each_kind_is_found_alone(
    shop: AuditedShop, kind: DifferenceKind, provider: str, *, archived: bool
) -> None:
    shop.charge("1")
    shop.charge("2", provider="braintree")
    ref = PLANTS[kind](shop, "3", provider)
    # Without the history, a finished job of the period is only seen through its charge.
    unseen = {
        DifferenceKind.JOB_WITHOUT_CHARGE,
        DifferenceKind.CHARGE_FAILED_LATER,
        DifferenceKind.CHARGE_ID_UNKNOWN,
        DifferenceKind.JOB_WITHOUT_REFUND,
        DifferenceKind.REFUND_FAILED_LATER,
    }
    if archived or kind in unseen:
        shop.archive()

    result, (difference,) = shop.audit()

    assert result.counts == {kind: 1}
    assert (difference.kind, difference.provider) == (kind, provider)
    assert any(shop.names(ref, one, provider) for one in difference.provider_ids)
    assert difference.job_key is not None


OPEN = [Status.READY, Status.STARTED, Status.UNKNOWN, Status.NEEDS_REVIEW]
# What each number of charges or refunds is for a job in this state: none, one, or two.
NOTHING: list[str] = []
EXPECTED: dict[str, tuple[list[str], list[str], list[str]]] = {
    Status.FINISHED: (["job_without_{}"], NOTHING, ["several_{}s"]),
    Status.FAILED: (NOTHING, ["{}_of_failed_job"], ["{}_of_failed_job"] * 2 + ["several_{}s"]),
    Status.CANCELLED: (NOTHING, ["{}_of_failed_job"], ["{}_of_failed_job"] * 2 + ["several_{}s"]),
    **{status: (NOTHING, NOTHING, ["several_{}s"]) for status in OPEN},
    "missing": (NOTHING, ["{}_without_job"], ["{}_without_job"] * 2),
    "forged": (NOTHING, ["{}_without_job"], ["{}_without_job"] * 2),
    "of another kind": (NOTHING, ["{}_without_job"], ["{}_without_job"] * 2),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", [EntryKind.CHARGE, EntryKind.REFUND])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("state", EXPECTED)
def test_every_state_of_a_job_with_each_number_of_entries(
    shop: AuditedShop, state: str, number: int, kind: EntryKind, provider: str
) -> None:
    job = shop.add_job("1", provider=provider, kind=kind)
    for entry in range(number):
        if kind is EntryKind.REFUND:
            shop.add_refund(job, f"re_1{'again' * entry}", provider=provider)
        else:
            ref = shop.plant(
                shop.job("1base").provider_ref or "", provider=provider, job_key=job.job_key
            )
            job = job if entry else replace(job, provider_ref=ref)
    key = job.job_key
    if state in set(Status):
        job = replace(job, status=Status(state))
    elif state == "forged":
        job = replace(job, fence=0, deployment=None, result=None, provider_ref=None)
    shop.world.store.jobs[key] = job
    if state == "missing":
        del shop.world.store.jobs[key]
    elif state == "of another kind":
        # A job that moves no money says nothing about an entry that names it.
        shop.world.store.jobs[key] = replace(job, job_type="receipt.send")
    if state != "forged":  # the history leaves such a row out
        shop.archive()

    _, found = shop.audit()

    assert sorted(one.kind for one in found) == sorted(
        one.format(kind) for one in EXPECTED[state][number]
    )


def test_planted_differences_are_found_and_no_others(shop: AuditedShop) -> None:
    for number, kind in enumerate(DifferenceKind):
        for provider in PROVIDERS:
            for order in range(3):
                shop.charge(f"{number}{provider}{order}", provider=provider)
            PLANTS[kind](shop, f"{number}{provider}", provider)
    shop.archive()

    result, found = shop.audit()

    assert result.counts == dict.fromkeys(DifferenceKind, 2)
    assert Counter((one.kind, one.provider) for one in found) == dict.fromkeys(
        ((kind, provider) for kind in DifferenceKind for provider in PROVIDERS), 1
    )


def test_sums_agree_to_the_cent(shop: AuditedShop) -> None:
    for order in range(3):
        shop.charge(str(order))
    shop.change_money(shop.charge("odd"), Money(1251, "eur"))
    shop.archive()

    (total,) = shop.audit()[0].totals

    assert total.charges == LedgerSum(count=4, amount=5001)
    assert total.jobs == LedgerSum(count=4, amount=5000)


@pytest.mark.parametrize("deployment", [None, "staging"])
def test_payments_of_others_are_counted_and_no_difference(
    shop: AuditedShop, deployment: str | None
) -> None:
    shop.plant(shop.charge("1"), deployment=deployment)
    shop.archive()

    result, found = shop.audit()

    assert (found, result.totals[0].not_ours) == ([], LedgerSum(count=1, amount=1250))


def test_charge_of_unresolved_job_is_counted_and_no_difference(shop: AuditedShop) -> None:
    shop.stripe.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    shop.charge("1")
    shop.archive()

    result, found = shop.audit()

    assert (found, result.totals[0].unresolved) == ([], LedgerSum(count=1, amount=1250))


def test_job_that_ended_after_its_history_line_is_no_difference(shop: AuditedShop) -> None:
    shop.stripe.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    shop.charge("1")
    shop.archive()  # as unknown
    shop.world.run_until_idle("payment.charge:order_1")

    result, found = shop.audit()

    assert (found, result.totals[0].jobs.count) == ([], 1)


def test_charge_before_the_period_is_no_missing_charge(shop: AuditedShop) -> None:
    """The job ended a second after midnight, its charge is the day before's."""
    shop.clock.time = PERIOD.since - timedelta(seconds=1)
    shop.charge("1")
    job = replace(shop.job("1"), updated_at=PERIOD.since, evidence=())
    shop.world.store.jobs[job.job_key] = job
    shop.archive()

    result, found = shop.audit()

    assert (found, result.totals) == ([], ())
    assert ("read_charge", "ch_1") in shop.stripe.calls


def test_charge_that_the_list_does_not_show_yet_is_counted(shop: AuditedShop) -> None:
    shop.stripe.model.charge_list_lag = timedelta(minutes=1)
    shop.charge("1")
    shop.archive()

    result, found = shop.audit()

    assert (found, result.totals[0].charges.count) == ([], 1)


@pytest.mark.parametrize("listed", [True, False])
def test_job_that_found_its_order_paid_needs_no_charge_of_its_own(
    shop: AuditedShop, *, listed: bool
) -> None:
    """Another application of the account charged it, in this period or long before."""
    if not listed:
        shop.clock.time = PERIOD.since - timedelta(days=10)
    charge_id = charge_by_others(shop)
    shop.clock.time = START
    shop.world.add_order("2", status="paid", charge_id=charge_id)
    shop.world.run(charge_message("2"))
    assert shop.job("2").status is Status.FINISHED
    shop.archive()

    assert shop.audit()[1] == []


def charge_by_others(shop: AuditedShop) -> str:
    """A charge without our metadata, like those that the shop made before Oncely."""
    other, ledger = shop.plant(shop.charge("1")), shop.stripe.model.ledger
    charge_id = charge_id_of(shop, other)
    ledger.save(*(replace(one, metadata={}) for one in ledger.intents if one.intent_id == other))
    ledger.save(*(replace(one, metadata={}) for one in ledger.charges if one.intent_id == other))
    return charge_id


@pytest.mark.parametrize("charge_id", ["", "confirmed"])
@pytest.mark.parametrize("archived", [True, False], ids=["history", "rows only"])
def test_erased_job_that_found_its_order_paid_needs_no_charge_of_its_own(
    shop: AuditedShop, charge_id: str, *, archived: bool
) -> None:
    if charge_id:
        shop.clock.time = PERIOD.since - timedelta(days=10)
        charge_id = charge_by_others(shop)
        shop.clock.time = START
    shop.world.add_order("2", status="paid", charge_id=charge_id)
    shop.world.run(charge_message("2"))
    assert shop.job("2").status is Status.FINISHED
    erased = replace(shop.job("2"), erasure_requested_at=START, due_at=None)
    shop.world.store.jobs[erased.job_key] = erase_if_complete(erased)
    if archived:
        shop.archive()

    assert shop.audit()[1] == []


def test_job_whose_charge_id_was_changed_is_a_difference(shop: AuditedShop) -> None:
    """Its reference leads to its charge, but the id in its result does not."""
    shop.charge("1")
    job = replace(shop.job("1"), result={"charge_id": "ch_invented"})
    shop.world.store.jobs[job.job_key] = job
    shop.archive()

    _, (found,) = shop.audit()

    assert found.kind is DifferenceKind.CHARGE_ID_UNKNOWN
    assert (found.provider_ids, found.job_key) == (("ch_invented",), job.job_key)


@pytest.mark.parametrize("text", ["", ".", "../refunds/re_1", "42", "x" * 300])
def test_text_that_is_no_charge_id_is_found_without_a_request(shop: AuditedShop, text: str) -> None:
    shop.charge("1")
    job = replace(shop.job("1"), result={"charge_id": text}, provider_ref=None)
    shop.world.store.jobs[job.job_key] = job
    shop.archive()
    shop.stripe.forget_calls()

    _, found = shop.audit()

    # An order that is paid without a charge id names nothing that could be missing.
    assert [one.kind for one in found] == ([DifferenceKind.CHARGE_ID_UNKNOWN] if text else [])
    assert {step for step, _ in shop.stripe.calls} == {
        "GET /v1/charges",
        "GET /v1/disputes",
        "lookup_refund",
    }


def test_second_charge_of_an_older_job_names_both(shop: AuditedShop) -> None:
    """The first charge is of another day, so only the row shows it."""
    shop.clock.time = PERIOD.since - timedelta(days=10)
    first = shop.charge("1")
    shop.clock.time = START
    shop.plant(first)

    _, (found,) = shop.audit()

    assert found.kind is DifferenceKind.SEVERAL_CHARGES
    assert found.provider_ids == ("ch_1", "ch_2")


def test_resubmissions_that_both_charged_are_several_charges(shop: AuditedShop) -> None:
    first = shop.charge("1")
    shop.plant(first, job_key=JobKey("payment.charge:order_1:2"))
    job = replace(
        shop.job("1"),
        job_key=JobKey("payment.charge:order_1:2"),
        message={"job": "payment.charge", "v": 1, "order_id": "1", "attempt": 2},
        provider_ref=f"{first}_1",
        result={"charge_id": charge_id_of(shop, f"{first}_1")},
    )
    shop.world.store.jobs[job.job_key] = job
    shop.archive()

    _, (found,) = shop.audit()

    assert (found.kind, found.subject) == (DifferenceKind.SEVERAL_CHARGES, "1")


def test_interrupted_audit_continues_after_the_last_page(
    shop: AuditedShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payment_ledger, "_PAGE_SIZE", 2)
    for order in range(7):
        shop.charge(str(order))
    shop.archive()
    book = str(tmp_path / "book")

    def interrupt(step: str, _share: float, count: int) -> None:
        if step == "listing stripe charges" and count == 4:
            raise KeyboardInterrupt

    with AuditBook(book, PERIOD) as opened, pytest.raises(KeyboardInterrupt):
        shop.auditor.run(opened, report=interrupt)
    before = len(shop.stripe.sandbox.ledger.requests)

    result, found = shop.audit(book)

    assert (found, result.totals[0].charges.count) == ([], 7)
    requests = shop.stripe.sandbox.ledger.requests[before:]
    pages = [one.params["starting_after"] for one in requests if one.path == "/v1/charges"]
    assert pages == ["ch_4", "ch_2"], "the newest are first"


def test_failed_request_is_repeated_and_then_the_audit_stops(shop: AuditedShop) -> None:
    shop.charge("1")
    shop.stripe.fail_next("list", *[ProviderFault.TIMEOUT_BEFORE] * 5)

    with pytest.raises(UnavailableError, match="Run the same command again to continue"):
        shop.audit()
    assert shop.pauses == [1.0, 4.0]
    result, _ = shop.audit()  # two more fail

    assert result.totals[0].charges.count == 1


def test_old_audit_is_not_continued(shop: AuditedShop, tmp_path: Path) -> None:
    with AuditBook(str(tmp_path / "book"), PERIOD) as book:
        shop.auditor.run(book)
        assert shop.auditor.can_resume(book)
        shop.clock.advance(hours=24)
        assert not shop.auditor.can_resume(book)


def test_refund_that_a_job_made_is_no_difference(shop: AuditedShop) -> None:
    shop.charge("1")
    shop.world.run(shop.world.request_refund(order_id="1"))
    assert len(shop.stripe.refunds) == 1
    shop.archive()

    result, found = shop.audit()

    assert (found, result.totals[0].refunds) == ([], LedgerSum(count=1, amount=1250))


def test_refund_that_names_a_missing_job_is_a_difference(shop: AuditedShop) -> None:
    shop.charge("1")
    shop.archive()
    shop.world.run(shop.world.request_refund(order_id="1"))
    del shop.world.store.jobs[JobKey("payment.refund:order_1:rma_1")]

    result, _ = shop.audit()

    assert result.counts == {DifferenceKind.REFUND_WITHOUT_JOB: 1}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", ["refunded", "disputed"])
def test_change_that_the_job_has_on_record_is_a_note(
    shop: AuditedShop, status: str, provider: str
) -> None:
    ref = shop.charge("1", provider=provider)
    shop.note("1", f"the provider reports: {ref} was charged")  # before it happened
    shop.clock.advance(hours=1)
    shop.complete(ref, provider=provider, status=status)
    shop.note("1", "looked up: another payment, pi_404, was refunded")
    result, found = shop.audit()
    assert (result.number, result.notes, [one.note for one in found]) == (1, 0, [None])

    shop.note(
        "1", f"the provider reports: {(shop.job('1').result or {})['charge_id']} was {status}"
    )
    with AuditBook(":memory:", PERIOD) as book:
        result = shop.auditor.run(book)
        lines = list(shop.auditor.report_lines(book, result))

    assert (result.number, result.notes) == (0, 1)
    assert (lines[0]["record"], lines[0]["note"]) == (
        "note",
        "in the timeline of payment.charge:order_1",
    )


@pytest.mark.parametrize("refunded", [True, False])
def test_void_is_a_note_if_our_refund_made_it(shop: AuditedShop, *, refunded: bool) -> None:
    """Braintree refunds a sale that has not settled by a void, which is no entry of its own."""
    ref = shop.charge("1", provider="braintree")
    job = replace(
        shop.add_job("2", provider="braintree"),
        subject="1",
        provider_ref=ref,
        result={"charge_id": ref},
        status=Status.FINISHED if refunded else Status.FAILED,
    )
    shop.complete(ref, provider="braintree", status="canceled")
    shop.archive()  # as if the refund came after the period
    shop.world.store.jobs[job.job_key] = job

    with AuditBook(":memory:", PERIOD) as book:
        shop.auditor.run(book)
        differences, notes = list(book.differences()), list(book.differences(noted=True))

    (found,) = notes if refunded else differences
    assert (found.kind, found.job_key) == (
        DifferenceKind.CHARGE_FAILED_LATER,
        "payment.charge:order_1",
    )
    assert found.note == (f"voided by {job.job_key}" if refunded else None)


def test_clean_orders_of_both_providers_have_no_difference(shop: AuditedShop) -> None:
    """Their refunds, partial ones, refunds by hand, voids and declines included."""
    notes = shop.add_clean_orders(60)
    shop.archive()

    with AuditBook(":memory:", PERIOD) as book:
        result = shop.auditor.run(book)
        assert list(book.differences()) == []

    assert (result.notes, sum(one.charges.count for one in result.totals) > 40) == (notes, True)
    assert [one.charges for one in result.totals] == [one.jobs for one in result.totals]


def charge_id_of(shop: AuditedShop, ref: str) -> str:
    intent = shop.stripe.model.ledger.intent(ref)
    assert intent is not None
    assert intent.latest_charge is not None
    return intent.latest_charge


def refund(shop: AuditedShop) -> str:
    shop.charge("1")
    shop.world.run(shop.world.request_refund(order_id="1"))
    (ref,) = shop.stripe.refunds
    return ref


def test_refund_that_failed_after_its_job_had_finished_is_a_difference(shop: AuditedShop) -> None:
    ref = refund(shop)
    shop.archive()
    shop.stripe.complete_refund(ref, status="failed")

    _, (found,) = shop.audit()

    assert (found.kind, found.provider_ids) == (DifferenceKind.REFUND_FAILED_LATER, (ref,))
    assert found.job_key == "payment.refund:order_1:rma_1"


def test_refund_that_the_list_does_not_show_yet_is_no_difference(shop: AuditedShop) -> None:
    ref = refund(shop)
    shop.archive()
    shop.stripe.model.refund_list_lag = timedelta(minutes=1)

    result, found = shop.audit()

    assert [one for one in found if one.kind is DifferenceKind.JOB_WITHOUT_REFUND] == []
    assert result.totals[0].refunds.count == 1
    assert ("GET /v1/refunds/re_1", ref) in shop.stripe.calls


def test_refund_of_another_amount_is_a_difference(shop: AuditedShop) -> None:
    ref = refund(shop)
    shop.archive()
    shop.stripe.model.ledger.save(replace(shop.stripe.refunds[ref], amount=1249))

    _, (found,) = shop.audit()

    assert (found.kind, found.provider_ids) == (DifferenceKind.AMOUNT_DIFFERS, (ref,))
    assert (found.theirs, found.ours) == (Money(1249, "eur"), Money(1250, "eur"))


def test_unfinished_refund_job_is_no_difference(shop: AuditedShop) -> None:
    shop.stripe.model.refund_status = "pending"
    refund(shop)
    shop.archive()

    assert shop.audit()[1] == []
