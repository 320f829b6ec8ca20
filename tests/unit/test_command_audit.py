"""`oncely audit payments` and the daily audit: their output for operators and programs."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from oncely.cli import console
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.plugins.ledger import DifferenceKind
from tests.support.audited_shop import EUR, PERIOD, PLANTS, PROVIDERS, AuditedShop, plant_amount
from tests.support.cli import FakeStackConnection, run_cli

NEXT_COMMAND = (
    "Next: oncely audit payments --from 2026-11-16T00:00:00.000Z --to 2026-11-17T00:00:00.000Z "
    "--stack Oncely-test"
)


@pytest.fixture
def shop() -> AuditedShop:
    return AuditedShop()


def test_command_reports_and_exits_with_4(shop: AuditedShop, tmp_path: Path) -> None:
    shop.charge("1")
    ref = plant_amount(shop, "2", "stripe")
    shop.archive()
    words = ("audit", "payments", "--from", "2026-11-16", "--to", "2026-11-17")

    def run(*more: str) -> tuple[int, str]:
        done = run_cli(
            *words,
            *more,
            connection=FakeStackConnection(shop.world),
            XDG_CACHE_HOME=str(tmp_path),
        )
        return done.exit_code, done.stdout

    code, text = run("--json")
    lines = [json.loads(line) for line in text.splitlines()]
    assert code == 4
    assert [line["record"] for line in lines] == ["difference", "total", "summary"]
    assert lines[0]["theirs"] == {"amount": 1251, "currency": "eur"}
    assert lines[2]["counts"]["amount_differs"] == 1

    code, text = run()
    assert "1 difference, 2026-11-16 00:00 UTC to 2026-11-17 00:00 UTC." in text
    assert "12.51 EUR, ours 12.50 EUR" in text

    shop.change_money(ref, EUR)
    code, text = run()
    assert (code, text.splitlines()[0][:15]) == (0, "No differences,")
    assert list((tmp_path / "oncely").iterdir()) == [], "nothing is left to resume"


PLANTED = (
    DifferenceKind.SEVERAL_REFUNDS,  # a double refund
    DifferenceKind.REFUND_OF_FAILED_JOB,  # cancelled and refunded
    DifferenceKind.CHARGE_FAILED_LATER,
    DifferenceKind.REFUND_FAILED_LATER,
    DifferenceKind.CHARGE_ID_UNKNOWN,  # an invented charge id
    DifferenceKind.CHARGE_WITHOUT_JOB,  # an orphan charge
    DifferenceKind.JOB_WITHOUT_CHARGE,
)


def test_planted_books_fit_80_columns(
    shop: AuditedShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_NON_TERMINAL_WIDTH", 80)
    notes = shop.add_clean_orders(20)
    for number, kind in enumerate(PLANTED):
        PLANTS[kind](shop, f"{number}", PROVIDERS[number % 2])
    shop.archive()

    done = run_cli(
        *("audit", "payments", "--from", "2026-11-16", "--to", "2026-11-17"),
        connection=FakeStackConnection(shop.world),
        XDG_CACHE_HOME=str(tmp_path),
    )

    lines = done.stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert lines[0].startswith(f"{len(PLANTED)} differences")
    assert [one.label for one in PLANTED if not re.search(f" 1  {one.label}", done.stdout)] == []
    assert f"{notes} more entries are explained by our own records" in done.stdout


def test_daily_audit_stores_report_and_alerts(shop: AuditedShop, tmp_path: Path) -> None:
    shop.charge("1")
    plant_amount(shop, "2", "stripe")
    plant_amount(shop, "3", "stripe")
    shop.archive()
    shop.clock.time = PERIOD.until + timedelta(hours=3)

    run_daily(shop, tmp_path)

    name, lines = newest_report(shop)
    assert name == "20261116T000000Z-20261117T000000Z-2"
    assert [line["record"] for line in lines] == ["difference", "difference", "total", "summary"]
    (alert,) = shop.world.alerts.sent
    assert alert.subject == "Oncely: 2 payments differ from our jobs"
    assert alert.text.splitlines() == [
        "Customers may have been charged wrongly: payments at the provider differ from our jobs.",
        "Period: 2026-11-16 00:00 UTC to 2026-11-17 00:00 UTC",
        "Found: 2 another amount",
        "Known: the audit changed nothing, here or at the provider",
        NEXT_COMMAND,
    ]


def test_difference_alerts_once_and_stays_in_report(shop: AuditedShop, tmp_path: Path) -> None:
    """A payment and a refund of one day fail six and ten days later."""
    planted = plant_amount(shop, "1", "stripe")
    sale = shop.charge("2", provider="braintree")
    refund = shop.add_job("3", provider="stripe")
    shop.add_refund(refund, "re_3", provider="stripe")
    shop.archive()
    found = []
    for day in range(1, 15):
        shop.clock.time = PERIOD.until + timedelta(days=day - 1, hours=3)
        if day == 6:
            shop.braintree.model.set_status(sale, "settlement_declined")
        if day == 10:
            shop.stripe.complete_refund("re_3", status="failed")
        if day == 12:
            shop.change_money(planted, EUR)
        run_daily(shop, tmp_path, days_ago=day)
        _, lines = newest_report(shop)
        found.append([line["kind"] for line in lines if line["record"] == "difference"])

    settled, failed = "charge_failed_later", "refund_failed_later"
    differs = "amount_differs"
    assert found == [
        *[[differs]] * 5,
        *[[settled, differs]] * 4,
        *[[settled, differs, failed]] * 2,
        *[[settled, failed]] * 3,
    ]
    alerts = [alert.text.splitlines()[2:4] for alert in shop.world.alerts.sent]
    known = "Known: {} more of this period, from an earlier alert"
    assert [found for found, _ in alerts] == [
        "Found: 1 another amount",
        "Found: 1 charge failed or voided later",
        "Found: 1 refund failed later",
    ]
    assert [line for _, line in alerts[1:]] == [known.format(1), known.format(2)]


def test_daily_audit_without_differences_sends_nothing(shop: AuditedShop, tmp_path: Path) -> None:
    shop.clock.time = PERIOD.until

    run_daily(shop, tmp_path)

    name, _ = newest_report(shop)
    assert (name, shop.world.alerts.sent) == ("20261116T000000Z-20261117T000000Z-0", [])


def test_daily_audit_repeats_an_alert_that_could_not_be_sent(
    shop: AuditedShop, tmp_path: Path
) -> None:
    plant_amount(shop, "2", "stripe")
    shop.archive()
    shop.clock.time = PERIOD.until
    shop.world.alerts.fails = True

    with pytest.raises(UnavailableError, match="could not be sent"):
        run_daily(shop, tmp_path)
    shop.world.alerts.fails = False
    shop.world.alerts.sent.clear()
    run_daily(shop, tmp_path)

    assert len(shop.world.alerts.sent) == 1


@pytest.mark.parametrize("scheduled_at", [None, 1, "", "<aws.scheduler.scheduled-time>"])
def test_daily_audit_rejects_what_is_no_time(
    shop: AuditedShop, tmp_path: Path, scheduled_at: object
) -> None:
    with pytest.raises(InvalidInputError, match="scheduled_at must be a time"):
        shop.world.app().daily_audit.run(tmp_path, scheduled_at=scheduled_at)


def run_daily(shop: AuditedShop, folder: Path, *, days_ago: int = 1) -> None:
    (folder / "audit.sqlite").unlink(missing_ok=True)
    scheduled_at = f"2026-11-17T03:{2 * (days_ago - 1):02}:00Z"
    shop.world.app().daily_audit.run(folder, scheduled_at=scheduled_at)


def newest_report(shop: AuditedShop) -> tuple[str, list[dict[str, Json]]]:
    reports = shop.world.app().ports.audit_reports
    (newest,) = reports.recent_audits(limit=10)
    return newest.name, reports.read_audit(newest.name) or []
