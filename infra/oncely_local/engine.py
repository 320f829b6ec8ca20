"""Starts and stops MiniStack, the local AWS, without leaving processes behind."""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final, Self

from oncely.cli.errors import CommandError

REPOSITORY: Final = Path(__file__).resolve().parents[2]
ENGINE_ENVIRONMENT: Final = REPOSITORY / ".venv-engine"  # in this repository
WATCHDOG_SCRIPT: Final = Path(__file__).with_name("parent_watchdog.py")
REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")
# In the environment, once everything is installed: the digest of the pins.
_STAMP: Final = ".oncely-engine"

HOST: Final = "127.0.0.1"
ACCOUNT: Final = "000000000000"
REGION: Final = "us-east-1"

# Usually under 1 second, but longer on a loaded build machine.
START_TIMEOUT_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05
RESPONSE_TIMEOUT_SECONDS: Final = 1.0
# Another process may bind a free port first. Failing this often has another cause.
PORT_ATTEMPTS: Final = 5
TAIL_LINES: Final = 20
# The engine writes its data when it stops. Longer than that is a hang.
SAVE_TIMEOUT_SECONDS: Final = 60.0


class EngineError(CommandError):
    """The engine did not start, or is not installed."""


class _PortTakenError(EngineError):
    """Another process bound the port first."""


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def account_environment() -> dict[str, str]:
    """The credentials and region of the engine's account, as environment variables."""
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCOUNT": ACCOUNT,
        "CDK_DEFAULT_ACCOUNT": ACCOUNT,
        "CDK_DEFAULT_REGION": REGION,
        # Never use the developer's AWS profile: it could reach a real account.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def aws_environment(url: str) -> dict[str, str]:
    """The environment variables with which boto3, the CDK and the AWS CLI reach an engine."""
    return {"AWS_ENDPOINT_URL": url, "AWS_ENDPOINT_URL_S3": url, **account_environment()}


class Engine:
    """A running MiniStack, created by `start_engine`. Stops at the end of a `with` block."""

    def __init__(
        self,
        *,
        environment: Path,
        port: int,
        log: Path,
        settings: Mapping[str, str],
        data: Path | None = None,
    ) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self.log = log
        self._name = f"oncely-{uuid.uuid4().hex}"
        self._data = data  # None if it keeps nothing
        self._scratch = tempfile.mkdtemp(prefix="oncely-engine-")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._process = self._launch(environment / "bin" / "python", settings, output)

    @property
    def pid(self) -> int:
        """The engine's process id, which is also the process group of its workers."""
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None:
                raise self._exit_error()
            if time.monotonic() > deadline:
                late = f"MiniStack was not ready within {START_TIMEOUT_SECONDS:.0f} s"
                raise EngineError(f"{late}\n{self._tail()}")
            time.sleep(POLL_SECONDS)

    def save_and_stop(self) -> bool:
        """Let it write its data, then stop it. Returns False if that took too long."""
        self._process.terminate()
        try:
            self._process.wait(SAVE_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        finally:
            self.stop()
        return True

    def stop(self) -> None:
        # Until the process is reaped, the system cannot reuse its id.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _launch(
        self, interpreter: Path, settings: Mapping[str, str], output: IO[bytes]
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603  # both paths are in this repository
            [interpreter, "-I", WATCHDOG_SCRIPT],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**self._own_environment(), **settings},
            cwd=self._scratch,
            # A new process group: Ctrl-C reaches only the parent, and one signal kills all workers.
            start_new_session=True,
        )

    def _own_environment(self) -> dict[str, str]:
        # Workers inherit it, so it contains nothing of the parent's but the PATH.
        data = self._data or Path(self._scratch)
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": self._scratch,
            "TMPDIR": self._scratch,
            "STATE_DIR": f"{data}/state",
            "S3_DATA_DIR": f"{data}/s3",
            **(dict.fromkeys(("PERSIST_STATE", "S3_PERSIST"), "1") if self._data else {}),
            "LANG": "C.UTF-8",
            "BIND_HOST": HOST,
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_REGION": REGION,
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            # Shown by its health page, which identifies this engine.
            "MINISTACK_EDITION": self._name,
            # These would listen on fixed ports.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
        }

    def _is_ready(self) -> bool:
        # Not urllib, which honors proxy settings.
        connection = http.client.HTTPConnection(HOST, self.port, timeout=RESPONSE_TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/_ministack/health")
            health = json.loads(connection.getresponse().read())
            return bool(
                health["edition"] == self._name and health["ready_scripts"]["status"] == "completed"
            )
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            return False
        finally:
            connection.close()

    def _exit_error(self) -> EngineError:
        tail = self._tail()
        if "already in use" in tail.lower():
            return _PortTakenError(f"Port {self.port} is in use\n{tail}")
        code = self._process.returncode
        return EngineError(f"MiniStack exited with code {code} before it was ready\n{tail}")

    def _tail(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join([f"End of {self.log}:", *lines[-TAIL_LINES:]])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_engine(
    log: Path,
    *,
    environment: Path = ENGINE_ENVIRONMENT,
    settings: Mapping[str, str] | None = None,
    pick_port: Callable[[], int] = free_port,
    data: Path | None = None,
) -> Engine:
    """Start an engine and wait until it responds. `settings` are MiniStack's variables.

    With a folder for its data, it continues with what is there, and writes it when it stops.
    """
    if not (environment / "bin" / "python").exists():
        raise EngineError(f"MiniStack is not installed in {environment}. Run `make setup`.")
    taken = EngineError("No port was tried")
    for _ in range(PORT_ATTEMPTS):
        engine = Engine(
            environment=environment,
            port=pick_port(),
            log=log,
            settings=settings or {},
            data=data,
        )
        try:
            engine.wait_until_ready()
        except _PortTakenError as error:
            engine.stop()
            taken = error
        except BaseException:  # Ctrl-C too: leave no process behind
            engine.stop()
            raise
        else:
            return engine
    raise taken


def install_if_missing(environment: Path) -> None:
    """Create the environment of the local AWS, apart from the project's: it pins other packages.

    On its first use, and again if the pins have changed.
    """
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    stamp = environment / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return
    python = environment / "bin" / "python"
    _run(sys.executable, "-m", "venv", "--clear", str(environment))
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    _run(str(python), *pip, "--require-hashes", "--requirement", str(REQUIREMENTS))
    stamp.write_text(digest, encoding="utf-8")


def _run(*command: str) -> None:
    done = subprocess.run(  # noqa: S603  # this interpreter, with the pins of this package
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EngineError(
            "Cannot install the local AWS. Its first use needs the package index that pip is "
            f"configured for:\n{done.stderr.strip()}"
        )
