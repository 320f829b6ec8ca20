"""With tracing on, jobs are worked all the same, and the threads' parts are the handler's."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from infra.local.engine import HOST, REPOSITORY, free_port
from tests.support.worker import Stage
from tests.support.world import charge

ORDERS = tuple(str(number) for number in range(8))
TRACE = "1-5759e988-bd862e3fe1be46a994272793"
PARENT = "53995c3f42cd8ad8"

# X-Ray's recorder is made once for a process, so each invocation here has a process of its own.
INVOCATION = """
import json, sys
from tests.support.worker import invoke
print(json.dumps(invoke(json.load(sys.stdin))))
"""


@pytest.fixture
def stage(stage: Stage) -> Stage:
    for order_id in ORDERS:
        stage.world().add_order(order_id)
    return stage


@pytest.fixture
def daemon() -> Iterator[socket.socket]:
    """What listens for X-Ray's segments on a Lambda machine."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as listening:
        listening.bind((HOST, 0))
        yield listening


def traced(stage: Stage, *, daemon: str, header: str) -> dict[str, Any]:
    """Invoke the function in a process that looks like Lambda's, with tracing on."""
    lambda_sets = {
        "LAMBDA_TASK_ROOT": "/var/task",
        "AWS_LAMBDA_FUNCTION_NAME": "work-payments",
        "AWS_XRAY_DAEMON_ADDRESS": daemon,
        "_X_AMZN_TRACE_ID": header,
    }
    done = subprocess.run(
        [sys.executable, "-c", INVOCATION],
        input=json.dumps(stage.deliver(*(json.dumps(charge(order_id)) for order_id in ORDERS))),
        check=False,
        capture_output=True,
        text=True,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'functions'}",
            **stage.environment(),
            **lambda_sets,
        },
    )
    # X-Ray logs what it cannot do instead of raising it.
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def segments(daemon: socket.socket) -> list[dict[str, Any]]:
    """All documents that arrived; each comes after a line that names the format."""
    daemon.settimeout(0)
    found = []
    while True:
        try:
            found.append(json.loads(daemon.recv(65_536).decode().split("\n", 1)[1]))
        except BlockingIOError:
            return found


@pytest.mark.parametrize(
    "header",
    [
        f"Root={TRACE};Parent={PARENT};Sampled=1",
        "",
    ],
    ids=["sampled", "no header"],
)
def test_a_job_is_worked_though_no_daemon_listens(stage: Stage, header: str) -> None:
    answer = traced(stage, daemon=f"{HOST}:{free_port()}", header=header)

    assert answer == {"batchItemFailures": []}
    assert len(stage.stripe.ledger.charges) == len(ORDERS)


def test_the_jobs_of_all_threads_are_traced_under_the_handler(
    stage: Stage, daemon: socket.socket
) -> None:
    address = f"{HOST}:{daemon.getsockname()[1]}"

    answer = traced(stage, daemon=address, header=f"Root={TRACE};Parent={PARENT};Sampled=1")

    found = segments(daemon)
    [handler] = [one for one in found if one["name"] == "## handler"]
    jobs = [one for one in found if one["name"] == "## job"]
    assert answer == {"batchItemFailures": []}
    assert (handler["trace_id"], handler["parent_id"]) == (TRACE, PARENT)
    assert len(jobs) == len(ORDERS)
    assert {(job["trace_id"], job["parent_id"]) for job in jobs} == {(TRACE, handler["id"])}
    assert all(job["end_time"] <= handler["end_time"] for job in jobs)
