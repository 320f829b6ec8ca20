"""A worker in its own process, to be frozen and thawed: it runs one message and reports.

The shipped parts, with times that a test can wait for:
`python -m tests.support.pausable_worker {…}`.
"""

import os
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from oncely.app import app_from_env
from oncely.core import attempt, claims, profiles
from oncely.handlers.telemetry import signal_for
from oncely.jobs.payment_charge import PaymentCharge
from oncely.providers.stripe import STRIPE
from tests.support.crash_points import InterruptingPort
from tests.support.fakes import FakeTableGuard

# A call may start until 1 s before the deadline; that leaves a busy machine time to get there.
DEADLINE: Final = timedelta(seconds=2.5)
REQUEST_TIMEOUT: Final = timedelta(seconds=0.5)
COMMIT_TIME: Final = timedelta(seconds=0.5)
MAX_SKEW: Final = timedelta(seconds=0.25)


class ShortTimeoutCharge(PaymentCharge):
    pass


_PROFILE: Final = PaymentCharge.policy.profile
ShortTimeoutCharge.policies = {
    "stripe": replace(
        PaymentCharge.policy,
        profile=replace(_PROFILE, request_timeout=REQUEST_TIMEOUT, max_calls=2),
    )
}


def signal(word: str) -> None:
    print(word, flush=True)  # noqa: T201  # the process that froze us reads it


def signal_and_wait() -> None:
    """Wait for the test to continue. If it is gone, continue: nothing more is written."""
    signal("claimed")
    sys.stdin.readline()


def main(body: str) -> None:
    patch = pytest.MonkeyPatch()
    for module in (attempt, profiles):
        patch.setattr(module, "COMMIT_BUDGET", COMMIT_TIME)
    patch.setattr(claims, "CLOCK_SKEW", MAX_SKEW)
    app = app_from_env(os.environ, [ShortTimeoutCharge])
    app.ports.provider(STRIPE)  # a first start is slow, and the deadline below is for the job alone
    store: Any = InterruptingPort(app.ports.job_store(), "claim", signal_and_wait)
    clock = app.ports.clock
    runner = replace(app.job_runner, store=store, guard=FakeTableGuard())
    signal(signal_for(runner.run(body, deadline=clock.now() + DEADLINE)).event)


if __name__ == "__main__":
    main(sys.argv[1])
