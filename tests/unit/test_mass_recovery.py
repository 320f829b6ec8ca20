"""How long 100,000 unknown payments take to resolve after an outage, with a simulated clock."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

import pytest

from oncely.contracts.settings import Settings
from oncely.core.effect_outcomes import Json
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.gates.gate import Gate
from oncely.plugins.provider import ProviderSettings
from oncely.reconcile.find_due_work import SweepItem, SweepRequest
from oncely.reconcile.resolve_group import (
    GroupResolver,
    build_group_summary,
    finish_sweep,
    split_into_groups,
)
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.load_size import choose_size
from tests.support.provider_fault import ProviderFault

GROUP_SIZE = Settings().sweep_group_size
# For 100,000: each page takes as long as the one before.
UNKNOWN: Final = choose_size(2_000, full=10_000)
FULL: Final = 100_000
READS_PER_SECOND: Final = 100
GROUP_CONCURRENCY: Final = 8
# A generous estimate of what AWS adds: starting a function, a step, an execution.
INVOCATION: Final = timedelta(milliseconds=250)
NEW_EXECUTION: Final = timedelta(seconds=1)
READ_SECONDS: Final = timedelta(milliseconds=300)


@dataclass
class OutageRecovery:
    world: InMemoryStack
    started: list[Mapping[str, Json]] = field(default_factory=list)
    reads: int = 0
    groups: int = 0
    executions: int = 0

    def start(self, sweep: Mapping[str, Json]) -> None:
        self.started.append(sweep)

    def sweep(self, sweep: Mapping[str, Json]) -> None:
        world, self.executions = self.world, self.executions + 1
        asked = SweepRequest.parse(sweep)
        app = world.app(sweeps=self)
        holder = f"execution {self.executions}"
        found = app.due_work_finder.find(asked, holder=holder)
        began = world.clock.time + NEW_EXECUTION
        lanes = [began] * GROUP_CONCURRENCY
        results = []
        for group in split_into_groups(found, size=GROUP_SIZE, dry_run=False):
            world.clock.time = heapq.heappop(lanes) + INVOCATION
            handled = self._resolver().resolve(
                [SweepItem.from_json(item) for item in group["items"]],
                deadline=world.clock.time + timedelta(seconds=60),
                concurrency=1,
            )
            results.append(build_group_summary(handled, max_bytes=group["bytes"]))
            heapq.heappush(lanes, world.clock.time + READ_SECONDS)
            self.groups += 1
        world.clock.time = max(lanes) + INVOCATION
        finish_sweep(
            {
                "execution": holder,
                "shards": found.shards,
                "busy": found.busy_shards,
                "from": asked.since,
                "next": asked.next_page(found.resume_at),
            },
            results,
            leases=app.ports.sweep_leases,
            sweeps=app.ports.sweeps,
        )

    def _resolver(self) -> GroupResolver:
        """The worker of one group. The clock advances while its jobs wait for their slots."""
        world = self.world
        gate = Gate(
            table=world.gates,
            clock=world.clock,
            settings={"stripe": ProviderSettings(lookups_per_second=READS_PER_SECOND)},
            sleep=lambda seconds: world.clock.advance(seconds=seconds),
        )
        payments = world.payments

        class Counted:
            def lookup(counted, *given: object) -> object:  # noqa: N805  # `self` is the outage
                self.reads += 1
                return payments.lookup(*given)

            def __getattr__(self, name: str) -> object:
                return getattr(payments, name)

        return world.app(provider=Counted(), gate=gate).group_resolver


@pytest.fixture
def outage() -> OutageRecovery:
    world = InMemoryStack()
    world.add_order()
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    one: JobRow = world.job("payment.charge:order_18452")
    order = {**world.order()}
    (intent,) = world.payments.intents.values()
    for number in range(UNKNOWN - 1):
        key, ref = JobKey(f"payment.charge:order_{number}"), f"pi_many_{number}"
        due_at = START + timedelta(milliseconds=number)
        message = {**one.message, "order_id": str(number)}
        row = replace(one, job_key=key, message=message, provider_ref=ref, due_at=due_at)
        world.store.create(replace(row, fingerprint=None))
        customer = f"cus_{number}"
        other = {**order, "payment_customer": customer}
        world.rows.put("orders", {"order_id": str(number)}, other)
        payment = replace(intent.payment, job_key=key, order_id=str(number), customer=customer)
        world.payments.intents[ref] = replace(intent, ref=ref, payment=payment)
    world.clock.advance(minutes=1)
    return OutageRecovery(world)


@pytest.mark.mass
def test_unknown_payments_resolve_within_time_after_outage(outage: OutageRecovery) -> None:
    began = outage.world.clock.time

    outage.start({})
    while outage.started:
        outage.sweep(outage.started.pop())

    took = outage.world.clock.time - began
    statuses = {job.status for job in outage.world.store.jobs.values()}
    assert statuses == {Status.FINISHED}
    assert outage.reads == UNKNOWN
    print("model:", took * FULL / UNKNOWN, outage.executions, outage.groups)  # noqa: T201  # the figure
    assert took * FULL / UNKNOWN <= timedelta(minutes=35)
    assert outage.reads / took.total_seconds() <= READS_PER_SECOND
    # Three states of an execution and one for each group, at 25 dollars a million.
    transitions = 3 * outage.executions + outage.groups
    assert transitions / UNKNOWN * 25 <= 1.1
