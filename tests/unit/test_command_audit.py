"""`oncely audit payments` and the daily audit: their output for operators and programs."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from oncely.domain.errors import UnavailableError
from tests.support.audited_shop import EUR, PERIOD, AuditedShop, plant_amount
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.fakes import MemoryAuditReports

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


def test_daily_audit_stores_report_and_alerts_once_if_anything_differs(
    shop: AuditedShop, tmp_path: Path
) -> None:
    shop.charge("1")
    plant_amount(shop, "2", "stripe")
    plant_amount(shop, "3", "stripe")
    shop.archive()
    shop.clock.time = PERIOD.until + timedelta(hours=3)
    reports = MemoryAuditReports()

    shop.world.app(audit_reports=reports).daily_audit.run(tmp_path)

    ((name, lines),) = reports.saved.items()
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


def test_daily_audit_without_differences_sends_nothing(shop: AuditedShop, tmp_path: Path) -> None:
    shop.clock.time = PERIOD.until
    reports = MemoryAuditReports()

    shop.world.app(audit_reports=reports).daily_audit.run(tmp_path)

    assert ([*reports.saved], shop.world.alerts.sent) == (
        ["20261116T000000Z-20261117T000000Z-0"],
        [],
    )


def test_daily_audit_fails_if_its_alert_cannot_be_sent(shop: AuditedShop, tmp_path: Path) -> None:
    plant_amount(shop, "2", "stripe")
    shop.archive()
    shop.clock.time = PERIOD.until
    shop.world.alerts.fails = True

    with pytest.raises(UnavailableError, match="could not be sent"):
        shop.world.app(audit_reports=MemoryAuditReports()).daily_audit.run(tmp_path)
