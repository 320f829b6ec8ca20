"""Jobs that became unknown in an outage, resolved at a provider that limits each endpoint.

python -m tests.bench.outage_recovery [jobs]
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from oncely.gates.gate import Gate
from oncely.ports import SystemClock
from oncely.providers.stripe.payments import StripePayments
from oncely.providers.stripe.plugin import STRIPE
from oncely.reconcile.find_due_work import SweepRequest
from tests.bench.figures import RecoveryFigures
from tests.support.in_memory_stack import UNLIMITED, InMemoryStack, charge_message
from tests.support.shipped_sandbox import ShippedSandbox

FUNCTIONS: Final = 8  # sweep_groups_at_once
GROUP_SIZE: Final = 25
API_KEY: Final = "sk_test_1"
RATE: Final = 25.0  # Stripe's, on each endpoint
# Without the gate, refused lookups are repeated up to 15 minutes later.
MAX_SECONDS: Final = 300


def recover(jobs: int, *, rate: float, gated: bool) -> RecoveryFigures:
    """Let jobs become unknown, then resolve them with the functions of a sweep."""
    with ShippedSandbox() as sandbox:
        world = InMemoryStack(clock=_SYSTEM_CLOCK)
        _lose_outcomes(world, sandbox, jobs)
        sandbox.rate_limit.per_second = rate
        before = len(sandbox.ledger.requests)
        apps = [_function(world, sandbox, gated=gated) for _ in range(FUNCTIONS)]
        began = time.monotonic()
        while _unresolved(world) and time.monotonic() - began < MAX_SECONDS:
            _sweep(world, apps)
        seconds = time.monotonic() - began
        requests = sandbox.ledger.requests[before:]
        busiest = Counter(f"{one.method} {one.path.count('/')}" for one in requests)
        return RecoveryFigures(
            is_gated=gated,
            jobs=jobs,
            seconds=seconds,
            lookups=max(busiest.values()),
            refused=sum(one.fault == "rate_limit" for one in requests),
            finished=jobs - _unresolved(world),
            rate=rate,
        )


_SYSTEM_CLOCK: Final[Any] = SystemClock()


def _lose_outcomes(world: InMemoryStack, sandbox: ShippedSandbox, jobs: int) -> None:
    """Charge each order, and lose the response of the confirmation and of the read after it."""
    client = StripePayments.from_api_key(API_KEY, api_base=sandbox.url)
    with _outage(sandbox):
        app = world.app(provider=client)

        def charge(number: int) -> None:
            world.add_order(str(number), payment_customer=f"cus_{number}")
            world.run(charge_message(str(number)), runner=app.job_runner)

        with ThreadPoolExecutor(max_workers=10) as pool:
            list(pool.map(charge, range(jobs)))
    assert _unresolved(world) == jobs, Counter(job.status for job in world.store.jobs.values())


@contextmanager
def _outage(sandbox: ShippedSandbox) -> Iterator[None]:
    sandbox.faults.add("accept_then_drop", times=None, **sandbox.stripe.requests["execute"])
    sandbox.faults.add("outage", times=None, **sandbox.stripe.requests["lookup"])
    yield
    sandbox.faults.clear()


def _function(world: InMemoryStack, sandbox: ShippedSandbox, *, gated: bool) -> Any:  # noqa: ANN401  # an app
    settings = {} if gated else {"stripe": UNLIMITED}
    gate = Gate(table=world.gates, clock=_SYSTEM_CLOCK, settings=settings)
    client = StripePayments.from_api_key(API_KEY, api_base=sandbox.url, gate=gate.requests(STRIPE))
    return world.app(provider=client, gate=gate)


def _sweep(world: InMemoryStack, apps: list[Any]) -> None:
    items = apps[0].due_work_finder.find(SweepRequest()).items
    if not items:
        time.sleep(1)
        return
    groups = [items[at : at + GROUP_SIZE] for at in range(0, len(items), GROUP_SIZE)]
    free = list(apps)

    def resolve(group: Any) -> None:  # noqa: ANN401  # of items
        app = free.pop()
        deadline = _SYSTEM_CLOCK.now() + timedelta(minutes=2)
        app.group_resolver.resolve(group, deadline=deadline, concurrency=10)
        free.append(app)

    with ThreadPoolExecutor(max_workers=FUNCTIONS) as pool:
        list(pool.map(resolve, groups))


def _unresolved(world: InMemoryStack) -> int:
    return sum(job.unresolved for job in world.store.jobs.values())


def measure_both(jobs: int = 2000) -> tuple[RecoveryFigures, RecoveryFigures]:
    """The same jobs with the gate, and without."""
    return (recover(jobs, rate=RATE, gated=True), recover(jobs, rate=RATE, gated=False))


if __name__ == "__main__":
    for found in measure_both(*map(int, sys.argv[1:2])):
        print(found)  # noqa: T201  # the figure
