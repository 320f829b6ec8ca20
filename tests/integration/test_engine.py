"""The local AWS starts clean, and exits with its parent however that ends."""

import io
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
import pytest

from oncely_local.engine import (
    ENGINE_ENVIRONMENT,
    HOST,
    REPOSITORY,
    Engine,
    EngineError,
    aws_environment,
    free_port,
    start_engine,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.service_resource import DynamoDBServiceResource
    from mypy_boto3_lambda import LambdaClient

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.enable_socket,
    pytest.mark.skipif(
        not ENGINE_ENVIRONMENT.exists() and os.environ.get("CI") != "true",
        reason="the engine is not installed: make setup",
    ),
]

# Killing is immediate; the rest is for a loaded machine.
EXIT_TIMEOUT_SECONDS = 5.0

STARTER = """
import signal, sys, time
from pathlib import Path
from oncely_local.engine import start_engine

# Processes started in the background ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
with start_engine(Path(sys.argv[1])) as engine:
    print(engine.pid, engine.port, flush=True)
    time.sleep(600)
"""

WHO_AM_I = """
import os

def handler(event, context):
    return {"pid": os.getpid(), "environment": dict(os.environ)}
"""


class StartedEngine(NamedTuple):
    starter: "subprocess.Popen[str]"
    engine_pid: int
    port: int


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@pytest.fixture
def started(log: Path) -> Iterator[StartedEngine]:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(log)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        pid, port = starter.stdout.readline().split()
        yield StartedEngine(starter, int(pid), int(port))
        starter.kill()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Where nothing adopts orphans, a killed one stays listed as a zombie.
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + EXIT_TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def session_for(engine: Engine) -> boto3.Session:
    settings = aws_environment(engine.url)
    return boto3.Session(
        aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
        region_name=settings["AWS_DEFAULT_REGION"],
    )


def invoke_function(engine: Engine) -> dict[str, Any]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as code:
        code.writestr("index.py", WHO_AM_I)
    functions: LambdaClient = session_for(engine).client("lambda", endpoint_url=engine.url)
    functions.create_function(
        FunctionName="who-am-i",
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/any",
        Handler="index.handler",
        Code={"ZipFile": archive.getvalue()},
    )
    answer: dict[str, Any] = json.load(functions.invoke(FunctionName="who-am-i")["Payload"])
    return answer


def test_item_is_read_back(log: Path) -> None:
    with start_engine(log) as engine:
        tables: DynamoDBServiceResource = session_for(engine).resource(
            "dynamodb", endpoint_url=engine.url
        )
        jobs = tables.create_table(
            TableName="jobs",
            KeySchema=[{"AttributeName": "job_key", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "job_key", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

        jobs.put_item(Item={"job_key": "payment.charge:order_1"})

        assert jobs.get_item(Key={"job_key": "payment.charge:order_1"})["Item"]


def test_environment_is_sufficient_for_boto3(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with start_engine(log) as engine:
        for name, value in aws_environment(engine.url).items():
            monkeypatch.setenv(name, value)
        caller = boto3.Session().client("sts").get_caller_identity()
        assert caller["Account"] == aws_environment(engine.url)["AWS_ACCOUNT"]


def test_two_engines_share_nothing(tmp_path: Path) -> None:
    with start_engine(tmp_path / "a.log") as one, start_engine(tmp_path / "b.log") as other:
        session_for(one).client("s3", endpoint_url=one.url).create_bucket(Bucket="archive")
        buckets = session_for(other).client("s3", endpoint_url=other.url).list_buckets()
        assert buckets["Buckets"] == []


def test_stop_ends_function_workers(log: Path) -> None:
    with start_engine(log) as engine:
        worker = invoke_function(engine)["pid"]
        assert is_running(worker)
    assert wait_until(lambda: not is_running(worker))
    assert not is_listening(engine.port)


def test_functions_do_not_inherit_environment(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPE_API_KEY", "sk_live_of_the_starter")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))

    with start_engine(log) as engine:
        seen = invoke_function(engine)["environment"]

    assert {"STRIPE_API_KEY", "PYTHONPATH"}.isdisjoint(seen)
    assert seen["AWS_ENDPOINT_URL"] == engine.url


def test_engine_stops_when_block_raises(log: Path) -> None:
    ports: list[int] = []

    def fail() -> None:
        with start_engine(log) as engine:
            ports.append(engine.port)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not is_listening(ports[0])


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_engine_never_outlives_its_starter(started: StartedEngine, ending: signal.Signals) -> None:
    assert is_listening(started.port)
    started.starter.send_signal(ending)
    assert wait_until(lambda: not is_running(started.engine_pid))
    assert wait_until(lambda: not is_listening(started.port))


def test_stopping_twice_is_harmless(log: Path) -> None:
    engine = start_engine(log)
    engine.stop()
    engine.stop()
    assert not is_listening(engine.port)


@pytest.mark.parametrize("taken_by", ["another server", "another engine"])
def test_taken_port_is_replaced(log: Path, taken_by: str) -> None:
    with ExitStack() as held:
        if taken_by == "another engine":
            taken = held.enter_context(start_engine(log)).port
        else:
            taken = held.enter_context(socket.create_server((HOST, 0))).getsockname()[1]
        ports = itertools.chain([taken], iter(free_port, None))

        with start_engine(log, pick_port=lambda: next(ports)) as engine:
            assert engine.port != taken


def test_failed_start_shows_end_of_log(log: Path) -> None:
    without_ministack = Path(sys.prefix)
    with pytest.raises(EngineError, match=r"No module named '?ministack"):
        start_engine(log, environment=without_ministack)


def test_missing_engine_error_says_how_to_install(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="make setup"):
        start_engine(tmp_path / "engine.log", environment=tmp_path)
