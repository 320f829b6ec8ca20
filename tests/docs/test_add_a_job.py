"""A reader who follows docs/add-a-job.md gets a tested job without changing the engine."""

import importlib.util
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import stripe

from oncely.core.effect_outcomes import Ambiguous, EffectOutcome, LookupOutcome, NotFound, Succeeded
from oncely.core.schedule import Clock
from oncely.testing import build_scenario
from oncely.testing.explorer import run_schedule
from oncely.testing.sandbox import FaultKind
from oncely.testing.schedule import ScriptedChooser
from tests.docs.guide import CONTRACT, TEST, follow_guide
from tests.docs.pages import REPOSITORY
from tests.support.shipped_sandbox import ShippedSandbox


@pytest.fixture
def follower(tmp_path: Path) -> Path:
    """A copy of the source with the files of the guide."""
    shutil.copytree(REPOSITORY / "functions", tmp_path / "functions")
    follow_guide(tmp_path)
    return tmp_path


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "functions"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(300)
def test_guide_test_passes_for_guide_job(follower: Path) -> None:
    done = _python(follower, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST)

    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_guide_test_fails_when_lookup_and_key_are_ignored(follower: Path) -> None:
    test = follower / TEST
    text = test.read_text()
    for honest, broken in (
        (
            'Succeeded("refunded", "re_1") if self.given else NotFound("there is none")',
            'NotFound("there is none")',
        ),
        ("self.given[key] = refund", "self.given[str(len(self.given))] = refund"),
    ):
        assert honest in text
        text = text.replace(honest, broken)
    test.write_text(text)

    done = _python(follower, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST)

    assert "REPLAY='deposit.return: w1:stripe_refunds.give!lost'" in done.stdout
    assert "happened 2 times" in done.stdout


def test_guide_line_registers_job(follower: Path) -> None:
    tell = (
        "from oncely.jobs.shipped import SHIPPED_JOBS\n"
        "print(*(kind.describe() for kind in SHIPPED_JOBS), sep='\\n')"
    )

    done = _python(follower, "-c", tell)

    assert "deposit.return (queue deposits)" in done.stdout, done.stderr
    assert "payment.charge (queue payments)" in done.stdout


def test_guide_job_imports_without_provider_sdk(follower: Path) -> None:
    """Functions that never call the provider ship without its layer."""
    check = "import sys, oncely.jobs.shipped; print('stripe' in sys.modules)"

    done = _python(follower, "-c", check)

    assert done.stdout == "False\n", done.stderr


@pytest.fixture
def guide(follower: Path) -> Any:  # noqa: ANN401  # a module that no type checker has seen
    spec = importlib.util.spec_from_file_location("deposit_return", follower / CONTRACT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_guide_job_has_order_as_subject(guide: Any) -> None:  # noqa: ANN401  # as above
    example = guide.DepositReturn.example

    assert guide.DepositReturn.subject(example) == example.order_id == "18452"


class LateDeposits:
    """The first request hangs somewhere, and arrives ten minutes later."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.in_flight: list[tuple[datetime, str]] = []
        self.given: set[str] = set()
        self.first = True

    def give(self, _refund: object, _job_key: str, *, key: str) -> EffectOutcome:
        if self.first:
            self.first = False
            self.in_flight.append((self.clock.now() + timedelta(minutes=10), key))
            return Ambiguous("timeout")
        self.given.add(key)
        return Succeeded("refunded", "re_1")

    def find(self, _refund: object, _job_key: str) -> LookupOutcome:
        arrived = {key for at, key in self.in_flight if at <= self.clock.now()}
        given = self.given | arrived
        return Succeeded("refunded", "re_1") if given else NotFound("there is none")


def test_guide_job_refunds_once_when_a_request_arrives_late(guide: Any) -> None:  # noqa: ANN401  # as above
    order = {"status": "paid", "charge_id": "ch_1", "customer_id": "cus_9"}
    scenario = build_scenario(
        guide.DepositReturn,
        message=guide.DepositReturn.example_message(),
        provider=LateDeposits,
        count_effects=lambda late: len(late.given | {key for _, key in late.in_flight}),
        lookup_calls={"find"},
        seed_rows=lambda rows: rows.put("orders", {"order_id": "18452"}, order),
    )

    world, problems = run_schedule(scenario, ScriptedChooser(()))

    assert problems == []
    assert list(world.final_statuses()) == ["deposit.return finished"]


@pytest.mark.enable_socket
def test_guide_provider_finds_refund_after_lost_reply(
    guide: Any,  # noqa: ANN401  # as above
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stripe, "enable_telemetry", False)
    with ShippedSandbox() as sandbox:
        refunds = guide.StripeDeposits("sk_test_guide", api_base=sandbox.url)
        order = guide.Deposit("18452", _seed_charge(sandbox))
        before = refunds.find(order, "deposit.return:order_18452")
        sandbox.faults.add(FaultKind.ACCEPT_THEN_DROP, method="POST", path="/v1/refunds", times=1)
        lost = refunds.give(order, "deposit.return:order_18452", key="refund:1")
        found = refunds.find(order, "deposit.return:order_18452")
        again = refunds.give(order, "deposit.return:order_18452", key="refund:1")
        given = sandbox.stripe.ledger.refunds

    assert isinstance(before, NotFound)
    assert isinstance(lost, Ambiguous)
    assert isinstance(found, Succeeded)
    assert again == found
    assert [one.refund_id for one in given] == [found.ref]


def _seed_charge(sandbox: ShippedSandbox) -> str:
    client = stripe.StripeClient("sk_test_guide", base_addresses={"api": sandbox.url})
    intent = client.v1.payment_intents.create(
        {
            "amount": 4900,
            "currency": "eur",
            "customer": "cus_9",
            "payment_method": "pm_card_visa",
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            "confirm": True,
            "off_session": True,
        }
    )
    return str(intent.latest_charge)
