"""Deploys the shop into the local AWS: an upgrade, a rollback, and the three ways."""

import sys
from pathlib import Path
from typing import Final

from oncely.core.job_row import ENGINE_NUMBER
from oncely_local.engine import start_engine
from tests.consumer.deployed_shop import CAMPAIGN, DeployedShop, LocalAws
from tests.consumer.shell import expect, step
from tests.consumer.voucher_provider import VoucherProvider, running_provider

# Its rows have an attribute that the rows of older engines do not have.
NEWER_ENGINE: Final = ENGINE_NUMBER + 1
# Vouchers with open jobs during the upgrade. The campaign `summer` does not exist yet.
UNFINISHED: Final = ("unknown", "busy", "slow", "early")
CAMPAIGNS: Final = {"early": "summer"}
OWN_STACK: Final = "ShopJobs-local"
_REFUSED: Final = "POST /vouchers: voucher_api responded with 429"
WAYS: Final = ("ShopConstruct-local", OWN_STACK, "ShopFunction-local")


def check_deployments(project: Path, oncely: Path, *, newer: Path, ways: Path) -> None:
    """Deploy this wheel, a newer engine over it, and then the three ways, in one engine."""
    with (
        running_provider() as provider,
        start_engine(project / "engine.log") as engine,
    ):
        aws = LocalAws(engine.url, provider.url, project)
        with step("deploy this wheel, and leave jobs unfinished"):
            aws.bootstrap(ways)
            aws.deploy(ways, OWN_STACK)
            shop = DeployedShop(aws, OWN_STACK, oncely=oncely)
            shop.set_up(api_key=provider.api_key)
            _leave_unfinished(shop, provider)
        with step("deploy a newer engine over them"):
            aws.deploy(newer, OWN_STACK)
            _expect_unfinished(shop)
        with step("let the unfinished jobs end"):
            _check_upgrade(shop, provider)
        with step("roll back to this wheel, and deploy it in each of the three ways"):
            aws.deploy(ways, *WAYS)
            _check_rollback(shop, provider)
        for name in WAYS:
            with step(f"drop an answer in {name}"):
                _check_way(DeployedShop(aws, name, oncely=oncely), provider)


def _leave_unfinished(shop: DeployedShop, provider: VoucherProvider) -> None:
    """Leave a job in each open status that a deployment can meet."""
    provider.lose_answers("unknown")
    provider.refuse("busy")
    provider.hang("slow")
    for voucher_id in UNFINISHED:
        shop.send_to_queue(voucher_id, CAMPAIGNS.get(voucher_id, CAMPAIGN))
    shop.wait_for("early", status="ready")
    shop.wait_for("unknown", status="unknown")
    shop.wait_for("busy", status="ready", last_error=_REFUSED)
    shop.wait_for("slow", status="started")


def _expect_unfinished(shop: DeployedShop) -> None:
    found = {one: shop.row(one)["status"] for one in UNFINISHED}
    if "finished" in found.values():
        sys.exit(f"a job ended before the upgrade: {found}")


def _check_upgrade(shop: DeployedShop, provider: VoucherProvider) -> None:
    provider.recover()
    shop.add_campaign("summer")
    for voucher_id in ("unknown", "slow"):
        shop.wait_for(voucher_id, sweep=True, status="finished")
    for voucher_id in ("busy", "early"):
        # Its message reappears, but minutes later if the deployment stopped a worker that had it.
        shop.send_to_queue(voucher_id, CAMPAIGNS.get(voucher_id, CAMPAIGN))
        shop.wait_for(voucher_id, status="finished")
    for voucher_id in UNFINISHED:
        _expect_one(provider, voucher_id)
    # Only the newer engine has claimed it.
    expect(str(shop.row("early").get("min_engine")), str(NEWER_ENGINE))


def _check_rollback(shop: DeployedShop, provider: VoucherProvider) -> None:
    """A row of the newer engine is neither claimed nor changed, and the command says why."""
    before = shop.row("early")
    shop.send_to_queue("early", CAMPAIGNS["early"])
    expect(shop.command("find", "early", "--json"), f"needs engine {NEWER_ENGINE}")
    if shop.row("early") != before:
        sys.exit(f"an older engine changed the row: {shop.row('early')}")
    _expect_one(provider, "early")


def _check_way(shop: DeployedShop, provider: VoucherProvider) -> None:
    voucher_id = shop.stack
    shop.set_up(api_key=provider.api_key)
    provider.lose_answers(voucher_id)
    shop.send(voucher_id)
    shop.wait_for(voucher_id, status="unknown")
    provider.recover()
    shop.wait_for(voucher_id, sweep=True, status="finished")
    _expect_one(provider, voucher_id)
    shop.command("doctor")


def _expect_one(provider: VoucherProvider, voucher_id: str) -> None:
    if (issued := provider.ledger[voucher_id]) != 1:
        sys.exit(f"voucher {voucher_id} was issued {issued} times")
