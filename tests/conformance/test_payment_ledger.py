"""Every payment provider lists its movements of money, each with its job."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from oncely.core.effect_outcomes import LookupFailed
from oncely.core.keys import JobKey
from oncely.core.money import Money
from oncely.plugins.ledger import EntryKind, HasLedger, LedgerEntry, PaymentOwner
from oncely.providers.braintree import BRAINTREE
from tests.conformance.payment_harnesses import (
    PaymentHarness,
    charge_payment,
    payment_harness,
    prepare_payment,
)

DAY = timedelta(days=1)


def list_all(
    rig: PaymentHarness, kind: EntryKind, *, since: datetime | None = None
) -> list[LedgerEntry]:
    now = datetime.now(UTC)
    entries: list[LedgerEntry] = []
    after = None
    for _ in range(100):
        page = rig.provider.ledger.list_entries(
            kind, since=since or now - DAY, until=now + DAY, after=after
        )
        assert not isinstance(page, LookupFailed), page.reason
        entries += page.entries
        after = page.after
        if after is None:
            return list({one.entry_id: one for one in entries}.values())
    raise AssertionError("the list does not end")


def charge_order(rig: PaymentHarness, order: str, *, number: int = 1) -> str:
    key = JobKey(f"payment.charge:order_{order}")
    asked = replace(rig.payment(), deployment="dev", job_key=key)
    return charge_payment(rig, asked, number=number)


def test_client_has_a_ledger(rig: PaymentHarness) -> None:
    assert isinstance(rig.provider, HasLedger), "or its payments are not audited"


def test_every_charge_is_listed_once_with_its_job(rig: PaymentHarness) -> None:
    refs = [charge_order(rig, str(number), number=number) for number in range(5)]

    found = list_all(rig, EntryKind.CHARGE)

    assert {one.ref for one in found} == set(refs)
    assert {one.deployment for one in found} == {"dev"}
    assert {one.job_label for one in found} == {f"payment.charge:order_{n}" for n in range(5)}
    assert {one.money for one in found} == {Money(1250, "eur")}


def test_what_took_no_money_is_not_listed(rig: PaymentHarness) -> None:
    prepare_payment(rig, rig.payment())
    assert list_all(rig, EntryKind.CHARGE) == []


def test_charges_outside_the_period_are_not_listed(rig: PaymentHarness) -> None:
    charge_order(rig, "1")
    assert list_all(rig, EntryKind.CHARGE, since=datetime.now(UTC) + timedelta(minutes=5)) == []


@pytest.mark.parametrize("kind", [EntryKind.REFUND, EntryKind.DISPUTE])
def test_refunds_and_disputes_are_listed_with_the_job_of_their_charge(
    rig: PaymentHarness, kind: EntryKind
) -> None:
    charge_order(rig, "1")
    ref = charge_order(rig, "2", number=2)
    (rig.refund if kind is EntryKind.REFUND else rig.dispute)(ref)

    (entry,) = list_all(rig, kind)

    assert (entry.ref, entry.money) == (ref, Money(1250, "eur"))
    assert (entry.deployment, entry.job_label) == ("dev", "payment.charge:order_2")
    assert len(list_all(rig, EntryKind.CHARGE)) == 2


def test_charge_is_found_by_its_reference(rig: PaymentHarness) -> None:
    ref = charge_order(rig, "1")
    prepared = prepare_payment(rig, rig.payment(), number=2)

    found = rig.provider.ledger.find_charge(ref)

    assert isinstance(found, LedgerEntry)
    assert [found] == list_all(rig, EntryKind.CHARGE)
    assert rig.provider.ledger.find_charge(found.entry_id) == found, "as an order row names it"
    assert rig.provider.ledger.find_charge(prepared) is None
    assert rig.provider.ledger.find_charge("bt_404") is None


def test_refund_is_found_by_its_id(rig: PaymentHarness) -> None:
    ref = charge_order(rig, "1")
    rig.refund(ref)
    (entry,) = list_all(rig, EntryKind.REFUND)

    assert rig.provider.ledger.find_refund(entry.entry_id) == entry
    assert rig.provider.ledger.find_refund("re_404") is None
    assert rig.provider.ledger.find_refund(ref) is None, "a charge is no refund"


def test_label_is_that_of_the_entries(rig: PaymentHarness) -> None:
    long = "x" * 120
    charge_order(rig, long)

    (entry,) = list_all(rig, EntryKind.CHARGE)

    assert entry.job_label == rig.provider.ledger.job_label(f"payment.charge:order_{long}")
    assert entry.deployment == "dev"


def test_unreachable_provider_is_no_empty_list(rig: PaymentHarness) -> None:
    now = datetime.now(UTC)
    for kind in EntryKind:
        rig.sandbox.faults.add("outage")
        page = rig.provider.ledger.list_entries(kind, since=now - DAY, until=now, after=None)
        assert isinstance(page, LookupFailed)
    rig.sandbox.faults.add("outage")
    assert isinstance(rig.provider.ledger.find_charge("pi_1"), LookupFailed)
    rig.sandbox.faults.add("outage")
    assert isinstance(rig.provider.ledger.find_refund("re_1"), LookupFailed)


def test_large_result_is_listed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncely.providers.braintree.payment_ledger.MAX_RESULT", 2)
    with payment_harness(BRAINTREE) as rig:
        refs = {charge_order(rig, str(number), number=number) for number in range(5)}
        assert {one.ref for one in list_all(rig, EntryKind.CHARGE)} == refs


def test_every_id_of_a_payment_leads_to_its_job(rig: PaymentHarness) -> None:
    ref = charge_order(rig, "1")
    rig.refund(ref)
    other = charge_order(rig, "2", number=2)
    rig.dispute(other)
    rig.set_email("cus_7", "seven@example.com")

    owners = {
        EntryKind.CHARGE: "payment.charge:order_1",
        EntryKind.REFUND: "payment.charge:order_1",
        EntryKind.DISPUTE: "payment.charge:order_2",
    }
    for kind, job_key in owners.items():
        wanted = ref if kind is not EntryKind.DISPUTE else other
        (entry,) = (one for one in list_all(rig, kind) if one.ref == wanted)
        (owner,) = find_owners(rig, entry.entry_id)
        assert (owner.deployment, owner.job_label, owner.ref) == ("dev", job_key, wanted)
    assert [one.ref for one in find_owners(rig, ref)] == [ref]
    for text in ("cus_7", "seven@example.com"):
        labels = {one.job_label for one in find_owners(rig, text)}
        assert labels == {"payment.charge:order_1", "payment.charge:order_2"}


def find_owners(rig: PaymentHarness, text: str) -> tuple[PaymentOwner, ...]:
    found = rig.provider.ledger.find_owners(text)
    assert isinstance(found, tuple)
    return found


def test_unknown_id_has_no_owner_and_other_text_is_not_asked(rig: PaymentHarness) -> None:
    assert find_owners(rig, "nobody@example.com") == ()
    assert find_owners(rig, "cus_404404") == ()
    assert rig.provider.ledger.find_owners("#18452") is None


def test_unanswered_search_for_an_owner_is_a_failed_lookup(rig: PaymentHarness) -> None:
    rig.sandbox.faults.add("outage")
    assert isinstance(rig.provider.ledger.find_owners("cus_7"), LookupFailed)
