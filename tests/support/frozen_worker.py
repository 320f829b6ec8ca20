"""A worker in a process of its own, to be frozen and thawed: it works one message and tells.

The shipped parts, with times that a test can wait for: `python -m tests.support.frozen_worker {…}`.
"""

import os
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from oncely.adapters.clients import Clients
from oncely.adapters.sns import SnsAlerts
from oncely.adapters.system import SystemClock, new_token, spread
from oncely.adapters.toolbox import Toolbox
from oncely.contracts.payment_charge import PaymentCharge
from oncely.registry import Registry
from oncely.services import acting, run_job
from oncely.services.deadline import Deadline
from oncely.settings import WorkerSettings
from oncely.testing.memory import MemoryGuard
from tests.support.mortal import Meanwhile

# A call may start until 1 s before the deadline; that leaves a busy machine time to get there.
DEADLINE: Final = timedelta(seconds=2.5)
REQUEST_TIMEOUT: Final = timedelta(seconds=0.5)
COMMIT: Final = timedelta(seconds=0.5)
SKEW: Final = timedelta(seconds=0.25)


class QuickCharge(PaymentCharge):
    """payment.charge, whose calls are given up sooner."""

    terms = replace(
        PaymentCharge.terms,
        profile=replace(PaymentCharge.terms.profile, request_timeout=REQUEST_TIMEOUT, calls=2),
    )

    @classmethod
    def time_needed(cls) -> timedelta:
        return cls.terms.profile.longest_run + COMMIT


def tell(word: str) -> None:
    print(word, flush=True)  # noqa: T201  # the process that froze us reads it


def tell_and_wait() -> None:
    """Let the other side choose its moment; without it nothing more is written, so go on."""
    tell("claimed")
    sys.stdin.readline()


def main(body: str) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr(acting, "COMMIT_BUDGET", COMMIT)
    patch.setattr(run_job, "CLOCK_SKEW", SKEW)
    registry = Registry([QuickCharge])
    settings = WorkerSettings.from_env(os.environ, registry)
    clients = Clients()
    tools = Toolbox(settings, clients)
    tools.payments()  # a first start is slow, and the deadline below is for the job alone
    store: Any = Meanwhile(tools.jobs(), "claim", tell_and_wait)
    clock = SystemClock()
    runner = run_job.JobRunner(
        registry=registry,
        tools=tools,
        store=store,
        alerts=SnsAlerts(clients.sns, settings.alert_topic_arn),
        clock=clock,
        new_token=new_token,
        spread=spread,
        guard=MemoryGuard(),
    )
    outcome = runner.run(body, deadline=Deadline(clock.now() + DEADLINE, clock))
    tell(type(outcome).__name__)


if __name__ == "__main__":
    main(sys.argv[1])
