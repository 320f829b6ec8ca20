"""The client that `oncely init` writes, against the sandbox that it writes, over real sockets."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncely import (
    Ambiguous,
    LookupFailed,
    LookupOutcome,
    NotFound,
    NotSent,
    ProviderAccess,
    Succeeded,
)
from oncely.core.effect_outcomes import EffectOutcome
from oncely.core.profiles import RetrySafety
from oncely.testing.sandbox import FaultKind, Sandbox, SandboxOptions
from tests.support.cli import run_cli

KEY = "d1:voucher.issue:7:do:1"


class Voucher:
    """The generated client and the sandbox that it calls."""

    def __init__(self, job: Any, sandbox: Sandbox) -> None:  # noqa: ANN401  # a generated module
        self.sandbox = sandbox
        self._plugin = job.PROVIDER
        self.client = self.connect("key_on_this_machine")

    def connect(self, api_key: str) -> Any:  # noqa: ANN401  # a generated class
        settings = self._plugin.settings_type(api_base=self.sandbox.url)
        return self._plugin.connect(ProviderAccess(settings=settings, api_key=api_key))

    def issue(self, key: str = KEY) -> EffectOutcome:
        outcome: EffectOutcome = self.client.do("7", key=key)
        return outcome

    def find(self) -> LookupOutcome:
        outcome: LookupOutcome = self.client.find("7")
        return outcome

    @property
    def keys(self) -> list[str]:
        return [one.key for one in self.sandbox.effects()]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [one for one in sys.modules if one.partition(".")[0] in {"jobs", "sandboxes"}]:
        del sys.modules[name]


@pytest.fixture
def job(packages: Path, request: pytest.FixtureRequest) -> Any:  # noqa: ANN401  # a generated module
    safety = getattr(request, "param", RetrySafety.KEYED)
    assert run_cli("init", "--job", "voucher.issue", "--safety", safety).exit_code == 0
    return importlib.import_module("jobs.voucher_issue")


@pytest.fixture
def voucher(job: Any) -> Iterator[Voucher]:  # noqa: ANN401  # as above
    with Sandbox([job.PROVIDER]) as sandbox:
        yield Voucher(job, sandbox)


@pytest.mark.parametrize(
    ("fault", "expected", "effects"),
    [
        (FaultKind.ACCEPT_THEN_DROP, Ambiguous, 1),
        (FaultKind.ERROR_AFTER, Ambiguous, 1),
        (FaultKind.GARBLED, Ambiguous, 1),
        (FaultKind.TRUNCATED, Ambiguous, 1),
        (FaultKind.ERROR_BEFORE, Ambiguous, 0),
        (FaultKind.CONFLICT, Ambiguous, 0),
        (FaultKind.OUTAGE, Ambiguous, 0),
        (FaultKind.DROP_BEFORE, Ambiguous, 0),
        (FaultKind.RATE_LIMIT, NotSent, 0),
        (FaultKind.UNAUTHORIZED, NotSent, 0),
    ],
)
def test_each_fault_is_one_outcome_and_resolves(
    voucher: Voucher, fault: FaultKind, expected: type, effects: int
) -> None:
    voucher.sandbox.faults.add(fault, method="POST")

    assert isinstance(voucher.issue(), expected)
    assert len(voucher.keys) == effects
    assert isinstance(voucher.find(), Succeeded if effects else NotFound)
    # The same key returns the same effect.
    assert isinstance(voucher.issue(), Succeeded)
    assert voucher.issue() == voucher.find()
    assert voucher.keys == ["voucher.issue:7"]


def test_failed_lookup_proves_nothing(voucher: Voucher) -> None:
    voucher.issue()
    for fault in (FaultKind.OUTAGE, FaultKind.GARBLED, FaultKind.DROP_BEFORE):
        voucher.sandbox.faults.add(fault, method="GET")
        assert isinstance(voucher.find(), LookupFailed)


def test_wrong_api_key_is_rejected_before_processing(voucher: Voucher) -> None:
    assert isinstance(voucher.connect("another").do("7", key=KEY), NotSent)
    assert not voucher.keys


def test_ledger_shows_double_effects_without_keys(job: Any) -> None:  # noqa: ANN401  # as above
    options = SandboxOptions(honors_idempotency_keys=False)
    with Sandbox([job.PROVIDER], options=options) as sandbox:
        voucher = Voucher(job, sandbox)
        voucher.issue()
        voucher.issue()

    assert voucher.keys == ["voucher.issue:7"] * 2


@pytest.mark.parametrize(
    ("job", "effects"),
    [(RetrySafety.NATURAL, 1), (RetrySafety.LOOKUP, 2), (RetrySafety.AT_MOST_ONCE, 2)],
    indirect=["job"],
)
def test_sandbox_repeats_as_the_safety_class_says(voucher: Voucher, effects: int) -> None:
    voucher.issue()
    voucher.issue()

    assert len(voucher.keys) == effects
