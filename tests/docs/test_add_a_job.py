"""A reader who follows docs/add-a-job.md gets a tested job without changing the engine."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import stripe

from oncely.domain.effect_outcomes import Ambiguous, NotFound, Succeeded
from oncely.testing.sandbox import FaultKind
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
def test_guide_test_fails_when_lookup_guard_is_removed(follower: Path) -> None:
    test = follower / TEST
    honest = 'Succeeded("refunded", "re_1") if self.given else NotFound("there is none")'
    assert honest in test.read_text()
    test.write_text(test.read_text().replace(honest, 'NotFound("there is none")'))

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
