"""The model of an HTTP API as the local stack serves it: over sockets, beside other providers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oncely import (
    Call,
    EffectOutcome,
    HttpProvider,
    Job,
    LookupOutcome,
    NotFound,
    ProviderAccess,
    Succeeded,
)
from oncely.core.new_row import row_from_message
from oncely.plugins.http_provider import HttpSettings
from oncely.testing.sandbox import Sandbox, SandboxOptions
from oncely_local.chaos import FAULT_PLANS, FaultLevel
from oncely_local.kept_data import KeptData
from tests.consumer.invoice_finalize import InvoiceFinalize

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)


class CouponIssue(Job):
    """A voucher is issued."""

    provider = HttpProvider("vouchers", key_ttl="24h")
    key = "order_id"
    order_id: str

    def execute(self, call: Call) -> EffectOutcome:
        return call.post("/vouchers", json={"order": self.order_id})


class TagSet(Job):
    """A tag is set."""

    provider = HttpProvider("tags")
    key, safety = "order_id", "natural"
    order_id: str

    def execute(self, call: Call) -> EffectOutcome:
        return call.send("PUT", f"/tags/{self.order_id}", json={"tag": "paid"})


class CrateShip(Job):
    """A parcel is shipped."""

    provider = HttpProvider("parcels")
    key = "order_id"
    order_id: str

    def execute(self, call: Call) -> EffectOutcome:
        return call.post("/parcels", json={"order": self.order_id})


JOBS: tuple[type[Job[Any]], ...] = (CouponIssue, TagSet, CrateShip, InvoiceFinalize)
PLUGINS = [job.all_providers()[0] for job in JOBS]


class _Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def start(clock: _Clock) -> Iterator[Callable[..., Sandbox]]:
    """Start a sandbox with these options."""
    running: list[Sandbox] = []

    def begin(**options: Any) -> Sandbox:  # noqa: ANN401  # of SandboxOptions
        sandbox = Sandbox(PLUGINS, jobs=JOBS, options=SandboxOptions(clock=clock, **options))
        running.append(sandbox.__enter__())
        return running[-1]

    yield begin
    for one in running:
        one.__exit__()


def call_of(sandbox: Sandbox, job: Job[Any]) -> Call:
    """A call whose client is the shipped one, at the address that stage `local` sets."""
    plugin: Any = job.all_providers()[0]
    settings = HttpSettings(api_base=f"{sandbox.url}{plugin.local_path}")
    access = ProviderAccess(settings=settings, api_key=sandbox.providers[plugin.name].api_key)
    row = row_from_message(job, now=NOW, due_at=NOW, actor="test", reason="sent")
    return replace(job.new_call(row, None), http=lambda: plugin.connect(access))


def perform(sandbox: Sandbox, job: Job[Any]) -> EffectOutcome:
    outcome: EffectOutcome = job.execute(call_of(sandbox, job))
    return outcome


def look_up(sandbox: Sandbox, job: Job[Any]) -> LookupOutcome:
    outcome: LookupOutcome = job.lookup(call_of(sandbox, job))
    return outcome


@pytest.mark.parametrize(
    ("job", "honors_keys", "effects"),
    [
        (CouponIssue(order_id="7"), True, 1),
        (CouponIssue(order_id="7"), False, 2),
        (TagSet(order_id="7"), True, 1),
        (CrateShip(order_id="7"), True, 2),
        (InvoiceFinalize(order_id="7", amount=4900), True, 2),
    ],
)
def test_second_request_repeats_the_effect_as_the_safety_class_says(
    start: Callable[..., Sandbox], job: Job[Any], *, honors_keys: bool, effects: int
) -> None:
    sandbox = start(honors_idempotency_keys=honors_keys)

    outcomes = [perform(sandbox, job) for _ in range(2)]

    assert all(isinstance(one, Succeeded) for one in outcomes)
    assert [one.key for one in sandbox.effects()] == [job.job_key()] * effects


def test_new_effect_is_shown_after_the_lag(start: Callable[..., Sandbox], clock: _Clock) -> None:
    sandbox, job = start(), InvoiceFinalize(order_id="7", amount=4900)
    done = perform(sandbox, job)

    clock.now += timedelta(seconds=4)
    assert isinstance(look_up(sandbox, job), NotFound)
    clock.now += timedelta(seconds=1)
    found = look_up(sandbox, job)

    assert isinstance(done, Succeeded)
    assert isinstance(found, Succeeded)
    assert found.ref == done.ref


@pytest.mark.parametrize("job", JOBS)
def test_faults_of_a_provider_hit_only_its_own_requests(
    start: Callable[..., Sandbox], job: type[Job[Any]]
) -> None:
    sandbox = start()
    others = [type(one) for name, one in sandbox.providers.items() if name != job.queue]
    always = replace(FAULT_PLANS[FaultLevel.HEAVY], rate_factor=10_000)
    always.apply(sandbox.faults, others)

    fields = {"order_id": "7", "amount": 4900} if job is InvoiceFinalize else {"order_id": "7"}
    for _ in range(20):
        assert isinstance(perform(sandbox, job.model_validate(fields)), Succeeded)


def test_effects_outlive_a_restart_of_the_local_stack(
    start: Callable[..., Sandbox], tmp_path: Path
) -> None:
    class StoppedEngine:
        def save_and_stop(self) -> bool:
            return True

    job, kept, engine = CouponIssue(order_id="7"), KeptData(tmp_path), StoppedEngine()
    sandbox = start()
    perform(sandbox, job)
    kept.choose_ports()
    kept.save(engine, sandbox)  # type: ignore[arg-type]  # only asked to stop

    later = start()
    kept.restore_providers(later)
    perform(later, job)

    assert [one.key for one in later.effects()] == ["coupon.issue:7"]
