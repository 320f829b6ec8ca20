"""The audit of payments finds what was planted and nothing else, and continues where it stopped."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from oncely.domain.errors import UnavailableError
from oncely.domain.keys import JobKey
from oncely.domain.ledger import DifferenceKind, LedgerSum
from oncely.domain.money import Money
from oncely.operate.audit_book import AuditBook
from oncely.operate.audit_payments import AuditProgress
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
    unseen = {DifferenceKind.JOB_WITHOUT_CHARGE, DifferenceKind.JOB_WITHOUT_REFUND}
    if archived or kind in unseen:
        shop.archive()

    result, (difference,) = shop.audit()

    assert result.counts == {kind: 1}
    assert (difference.kind, difference.provider) == (kind, provider)
    assert any(shop.names(ref, one, provider) for one in difference.provider_ids)
    assert difference.job_key is not None


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
    ref = shop.charge("1")
    job = replace(shop.job("1"), updated_at=PERIOD.since, evidence=())
    shop.world.store.jobs[job.job_key] = job
    shop.archive()

    result, found = shop.audit()

    assert (found, result.totals) == ([], ())
    assert ("lookup", ref) in shop.stripe.calls


def test_charge_that_the_list_does_not_show_yet_is_counted(shop: AuditedShop) -> None:
    shop.stripe.model.charge_list_lag = timedelta(minutes=1)
    shop.charge("1")
    shop.archive()

    result, found = shop.audit()

    assert (found, result.totals[0].charges.count) == ([], 1)


def test_job_that_found_its_order_paid_needs_no_charge(shop: AuditedShop) -> None:
    shop.world.add_order("1", status="paid", charge_id="ch_of_another_system")
    shop.world.run(charge_message("1"))
    shop.archive()

    result, found = shop.audit()

    assert (found, result.totals) == ([], ())


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
        result={"charge_id": f"ch_{first}_1"},
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

    def interrupt(progress: AuditProgress) -> None:
        if progress.step == "listing stripe charges" and progress.count == 4:
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


def test_refund_that_names_a_failed_or_missing_job_is_a_difference(shop: AuditedShop) -> None:
    shop.charge("1")
    shop.world.run(shop.world.request_refund(order_id="1"))
    shop.archive()
    del shop.world.store.jobs[JobKey("payment.refund:order_1:rma_1")]

    result, _ = shop.audit()

    assert result.counts == {DifferenceKind.REFUND_WITHOUT_JOB: 1}


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

    assert (found.kind, found.provider_ids) == (DifferenceKind.JOB_WITHOUT_REFUND, (ref,))
    assert found.job_key == "payment.refund:order_1:rma_1"
    assert ("GET /v1/refunds/re_1", ref) in shop.stripe.calls


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
