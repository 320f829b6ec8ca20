"""A worker that is frozen past its lease, as on Lambda, does no harm when it thaws."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from oncely.core.lifecycle import Event, Status
from oncely.testing.sandbox import FaultKind, SandboxFault
from oncely_local.engine import REPOSITORY
from tests.support.in_memory_stack import charge_message
from tests.support.worker import KEY, WorkerHarness

CREATE = "/v1/payment_intents"
CONFIRM = "/v1/payment_intents/*/confirm"
PATIENCE = 20.0


@pytest.fixture
def rig(rig: WorkerHarness) -> WorkerHarness:
    rig.world().add_order()
    return rig


@dataclass
class PausedWorker:
    process: "subprocess.Popen[str]"
    rig: WorkerHarness

    def wait_for_claim(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "claimed\n"

    def resume_after_claim(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def wait_for_lease_expiry(self) -> None:
        lease_until = self.rig.world().job(KEY).lease_until
        assert lease_until is not None
        wait_until(lambda: datetime.now(UTC) > lease_until)

    def thaw(self) -> str:
        self.process.send_signal(signal.SIGCONT)
        outcome, _ = self.process.communicate(timeout=PATIENCE)
        return outcome.strip()


@pytest.fixture
def worker(rig: WorkerHarness) -> Iterator[PausedWorker]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.pausable_worker", json.dumps(charge_message())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{REPOSITORY}/functions:{REPOSITORY}/infra",
            **rig.environment(),
        },
    ) as process:
        yield PausedWorker(process, rig)
        process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def freeze_during(worker: PausedWorker, fault: SandboxFault) -> None:
    """Freeze it while the provider processes its request and responds."""
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


def count_confirms(rig: WorkerHarness) -> int:
    return sum(request.path.endswith("/confirm") for request in rig.sandbox.ledger.requests)


def reconcile_job(rig: WorkerHarness) -> None:
    world = rig.world()
    world.clock.time = datetime.now(UTC)
    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert (world.order()["status"], len(rig.sandbox.stripe.ledger.charges_for(KEY))) == ("paid", 1)


def test_worker_frozen_in_create_never_confirms(rig: WorkerHarness, worker: PausedWorker) -> None:
    create = rig.sandbox.faults.add(FaultKind.SLOW, method="POST", path=CREATE, seconds=PATIENCE)
    freeze_during(worker, create)

    assert worker.thaw() == "nothing sent"
    assert count_confirms(rig) == 0
    assert rig.world().job(KEY).status is Status.READY
    reconcile_job(rig)
    assert (count_confirms(rig), len(rig.sandbox.stripe.ledger.intents)) == (1, 1)


@pytest.mark.parametrize("frozen", ["in create", "after claim"])
def test_frozen_worker_loses_its_job(rig: WorkerHarness, worker: PausedWorker, frozen: str) -> None:
    if frozen == "in create":
        slow = rig.sandbox.faults.add(FaultKind.SLOW, method="POST", path=CREATE, seconds=PATIENCE)
        freeze_during(worker, slow)
    else:
        freeze_after_claim(worker)
    reconcile_job(rig)
    before, requests = rig.dynamo.row(KEY), rig.sandbox.ledger.requests

    assert worker.thaw() == "ownership lost"
    assert rig.sandbox.ledger.requests == requests
    assert count_confirms(rig) == len(rig.sandbox.stripe.ledger.charges_for(KEY)) == 1
    assert rig.dynamo.row(KEY) == before


def test_worker_frozen_after_claim_sends_nothing(rig: WorkerHarness, worker: PausedWorker) -> None:
    freeze_after_claim(worker)
    assert worker.thaw() == "nothing sent"
    assert (rig.sandbox.ledger.requests, rig.world().job(KEY).attempts) == ((), 0)
    reconcile_job(rig)


def test_late_worker_agrees_with_reconciler(rig: WorkerHarness, worker: PausedWorker) -> None:
    confirm = rig.sandbox.faults.add(FaultKind.ACCEPT_THEN_HANG, path=CONFIRM, seconds=PATIENCE)
    freeze_during(worker, confirm)
    reconcile_job(rig)

    assert worker.thaw() == "ownership lost"
    job = rig.world().job(KEY)
    assert (job.status, job.evidence[-1].event) == (Status.FINISHED, Event.NOTE)
    assert "a late worker (claim 1) reports: charged" in job.evidence[-1].reason
    assert count_confirms(rig) == len(rig.sandbox.stripe.ledger.charges_for(KEY)) == 1
