"""A worker that is frozen past its lease, as Lambda freezes processes, thaws without harm."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO

import pytest

from oncely.domain.lifecycle import Event, Status
from oncely.testing.sandbox import FaultKind, SandboxFault
from oncely_local.engine import REPOSITORY
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.worker import KEY, WorkerHarness

CREATE = "/v1/payment_intents"
CONFIRM = "/v1/payment_intents/*/confirm"
PATIENCE = 20.0


@pytest.fixture
def harness(harness: WorkerHarness) -> WorkerHarness:
    harness.world().add_order()
    return harness


@dataclass
class PausedWorker:
    """The process of tests/support/pausable_worker.py."""

    process: "subprocess.Popen[str]"
    harness: WorkerHarness

    def wait_for_claim(self) -> None:
        """Wait until it owns the job; it waits in turn."""
        assert self._output.readline() == "claimed\n"

    def resume_after_claim(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def wait_for_lease_expiry(self) -> None:
        lease_until = self.harness.world().job(KEY).lease_until
        assert lease_until is not None
        wait_until(lambda: datetime.now(UTC) > lease_until)

    def thaw(self) -> str:
        """Let it run to its end; gives the outcome it tells."""
        self.process.send_signal(signal.SIGCONT)
        told, _ = self.process.communicate(timeout=PATIENCE)
        return told.strip()

    @property
    def _output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout


@pytest.fixture
def worker(harness: WorkerHarness) -> Iterator[PausedWorker]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.pausable_worker", json.dumps(charge_message())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{REPOSITORY}/functions:{REPOSITORY}/infra",
            **harness.environment(),
        },
    ) as process:
        yield PausedWorker(process, harness)
        process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def freeze_during(worker: PausedWorker, fault: SandboxFault) -> None:
    """Freeze it while the provider works on its request; the answer comes while it is frozen."""
    worker.wait_for_claim()
    worker.resume_after_claim()
    wait_until(lambda: fault.hits == 1)
    worker.freeze()
    fault.release()
    worker.wait_for_lease_expiry()


def freeze_after_claim(worker: PausedWorker) -> None:
    worker.wait_for_claim()
    worker.freeze()
    worker.resume_after_claim()
    worker.wait_for_lease_expiry()


def count_confirms(harness: WorkerHarness) -> int:
    return sum(request.path.endswith("/confirm") for request in harness.stripe.ledger.requests)


def reconcile_job(world: InMemoryStack) -> None:
    """Reconcile, and let a second worker take what that sends, until the job rests."""
    world.clock.time = datetime.now(UTC)
    job = world.run_until_idle(KEY)
    assert job.status is Status.FINISHED
    assert world.order()["status"] == "paid"


def test_thawed_worker_never_confirms_when_frozen_in_create(
    harness: WorkerHarness, worker: PausedWorker
) -> None:
    create = harness.stripe.faults.add(FaultKind.SLOW, method="POST", path=CREATE, seconds=PATIENCE)
    freeze_during(worker, create)

    told = worker.thaw()

    assert count_confirms(harness) == 0
    assert told == "NotAttempted"
    assert harness.world().job(KEY).status is Status.READY
    reconcile_job(harness.world())
    assert count_confirms(harness) == 1
    assert len(harness.stripe.ledger.charges_for(KEY)) == 1
    assert len(harness.stripe.ledger.intents) == 1


def test_worker_frozen_in_create_loses_ownership_to_other(
    harness: WorkerHarness, worker: PausedWorker
) -> None:
    create = harness.stripe.faults.add(FaultKind.SLOW, method="POST", path=CREATE, seconds=PATIENCE)
    freeze_during(worker, create)
    reconcile_job(harness.world())
    before = harness.dynamo.row(KEY)

    told = worker.thaw()

    assert told == "OwnershipLost"
    assert count_confirms(harness) == 1
    assert len(harness.stripe.ledger.charges_for(KEY)) == 1
    assert harness.dynamo.row(KEY) == before


def test_thawed_worker_sends_nothing_when_frozen_after_claim(
    harness: WorkerHarness, worker: PausedWorker
) -> None:
    freeze_after_claim(worker)

    told = worker.thaw()

    assert harness.stripe.ledger.requests == ()
    assert told == "NotAttempted"
    assert harness.world().job(KEY).attempts == 0
    reconcile_job(harness.world())
    assert len(harness.stripe.ledger.charges_for(KEY)) == 1


def test_worker_frozen_after_claim_loses_ownership_to_other(
    harness: WorkerHarness, worker: PausedWorker
) -> None:
    freeze_after_claim(worker)
    reconcile_job(harness.world())
    before, asked = harness.dynamo.row(KEY), harness.stripe.ledger.requests

    told = worker.thaw()

    assert told == "OwnershipLost"
    assert harness.stripe.ledger.requests == asked
    assert len(harness.stripe.ledger.charges_for(KEY)) == 1
    assert harness.dynamo.row(KEY) == before


def test_late_worker_agrees_with_reconciler(harness: WorkerHarness, worker: PausedWorker) -> None:
    confirm = harness.stripe.faults.add(FaultKind.ACCEPT_THEN_HANG, path=CONFIRM, seconds=PATIENCE)
    freeze_during(worker, confirm)
    reconcile_job(harness.world())

    told = worker.thaw()

    job = harness.world().job(KEY)
    assert told == "OwnershipLost"
    assert (job.status, job.evidence[-1].event) == (Status.FINISHED, Event.NOTE)
    assert "a late worker (claim 1) reports: charged" in job.evidence[-1].reason
    assert count_confirms(harness) == 1
    assert len(harness.stripe.ledger.charges_for(KEY)) == 1
