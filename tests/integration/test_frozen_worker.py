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

from infra.local.engine import REPOSITORY
from infra.local.sandbox import Fault, FaultKind
from oncely.domain.lifecycle import Event, Status
from tests.support.worker import KEY, Stage
from tests.support.world import World, charge

CREATE = "/v1/payment_intents"
CONFIRM = "/v1/payment_intents/*/confirm"
PATIENCE = 20.0


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.world().add_order()
    return stage


@dataclass
class Worker:
    """The process of tests/support/frozen_worker.py."""

    process: "subprocess.Popen[str]"
    stage: Stage

    def claims(self) -> None:
        """Wait until it owns the job; it waits in turn."""
        assert self._output.readline() == "claimed\n"

    def goes_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def stay_frozen_until_the_lease_is_over(self) -> None:
        lease_until = self.stage.world().job(KEY).lease_until
        assert lease_until is not None
        until(lambda: datetime.now(UTC) > lease_until)

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
def worker(stage: Stage) -> Iterator[Worker]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.frozen_worker", json.dumps(charge())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY / "functions"),
            **stage.environment(),
        },
    ) as process:
        yield Worker(process, stage)
        process.kill()


def until(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def frozen_during(worker: Worker, fault: Fault) -> None:
    """Freeze it while the provider works on its request; the answer comes while it is frozen."""
    worker.claims()
    worker.goes_on()
    until(lambda: fault.hits == 1)
    worker.freeze()
    fault.release()
    worker.stay_frozen_until_the_lease_is_over()


def frozen_after_claim(worker: Worker) -> None:
    worker.claims()
    worker.freeze()
    worker.goes_on()
    worker.stay_frozen_until_the_lease_is_over()


def confirms(stage: Stage) -> int:
    return sum(request.path.endswith("/confirm") for request in stage.stripe.ledger.requests)


def healed(world: World) -> None:
    """Reconcile, and let a second worker take what that sends, until the job rests."""
    world.clock.time = datetime.now(UTC)
    job = world.until_quiet(KEY)
    assert job.status is Status.FINISHED
    assert world.order()["status"] == "paid"


def test_thawed_worker_never_confirms_when_frozen_in_create(stage: Stage, worker: Worker) -> None:
    create = stage.stripe.faults.add(FaultKind.SLOW, method="POST", path=CREATE, seconds=PATIENCE)
    frozen_during(worker, create)

    told = worker.thaw()

    assert confirms(stage) == 0
    assert told == "NothingSent"
    assert stage.world().job(KEY).status is Status.READY
    healed(stage.world())
    assert confirms(stage) == 1
    assert len(stage.stripe.ledger.charges_for(KEY)) == 1
    assert len(stage.stripe.ledger.intents) == 1


def test_worker_frozen_in_create_loses_ownership_to_other(stage: Stage, worker: Worker) -> None:
    create = stage.stripe.faults.add(FaultKind.SLOW, method="POST", path=CREATE, seconds=PATIENCE)
    frozen_during(worker, create)
    healed(stage.world())
    before = stage.dynamo.row(KEY)

    told = worker.thaw()

    assert told == "OwnershipLost"
    assert confirms(stage) == 1
    assert len(stage.stripe.ledger.charges_for(KEY)) == 1
    assert stage.dynamo.row(KEY) == before


def test_thawed_worker_sends_nothing_when_frozen_after_claim(stage: Stage, worker: Worker) -> None:
    frozen_after_claim(worker)

    told = worker.thaw()

    assert stage.stripe.ledger.requests == ()
    assert told == "NothingSent"
    assert stage.world().job(KEY).attempts == 0
    healed(stage.world())
    assert len(stage.stripe.ledger.charges_for(KEY)) == 1


def test_worker_frozen_after_claim_loses_ownership_to_other(stage: Stage, worker: Worker) -> None:
    frozen_after_claim(worker)
    healed(stage.world())
    before, asked = stage.dynamo.row(KEY), stage.stripe.ledger.requests

    told = worker.thaw()

    assert told == "OwnershipLost"
    assert stage.stripe.ledger.requests == asked
    assert len(stage.stripe.ledger.charges_for(KEY)) == 1
    assert stage.dynamo.row(KEY) == before


def test_late_worker_agrees_with_reconciler(stage: Stage, worker: Worker) -> None:
    confirm = stage.stripe.faults.add(FaultKind.ACCEPT_THEN_HANG, path=CONFIRM, seconds=PATIENCE)
    frozen_during(worker, confirm)
    healed(stage.world())

    told = worker.thaw()

    job = stage.world().job(KEY)
    assert told == "OwnershipLost"
    assert (job.status, job.evidence[-1].event) == (Status.FINISHED, Event.NOTE)
    assert "a late worker (claim 1) reports: charged" in job.evidence[-1].reason
    assert confirms(stage) == 1
    assert len(stage.stripe.ledger.charges_for(KEY)) == 1
