"""`make local`: what it prints works as it is printed, and nothing stays behind."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from oncely_cdk.paths import FUNCTIONS, REPOSITORY
from oncely_local.cdk_cli import CDK
from oncely_local.redeploy import STATE_FILE, RunningStack
from tests.support.engines import skip_or_fail

TIMEOUT_SECONDS = 120.0


class Terminal:
    def __init__(self, said: Path) -> None:
        self._output = said
        self._path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        with said.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "oncely_local", "local"],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": f"{FUNCTIONS}:{REPOSITORY}/infra"},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def wait_for_output(self, seen: Callable[[str], bool]) -> str:
        until = time.monotonic() + TIMEOUT_SECONDS
        while not seen(self.output):
            assert self.process.poll() is None, self.output
            assert time.monotonic() < until, self.output
            time.sleep(0.2)
        return self.output

    def press(self, key: str) -> None:
        assert self.process.stdin
        print(key, file=self.process.stdin, flush=True)

    def run_in_second_terminal(self, *commands: str) -> str:
        return subprocess.run(
            ["/bin/sh", "-euc", "\n".join(commands)],
            cwd=REPOSITORY,
            # Nothing of ours but what is exported there.
            env={"PATH": self._path, "HOME": str(self._output.parent)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if not CDK.exists():
        skip_or_fail("no CDK command line: `make setup` installs it")
    if RunningStack.find():
        pytest.skip("`make local` is up here: its stack is not ours to end")
    terminal = Terminal(tmp_path / "said.txt")
    with terminal.process:
        try:
            terminal.wait_for_output(lambda said: "Ctrl-C stops." in said)
            yield terminal
        finally:
            terminal.end()


def test_printed_commands_send_message_and_find_job(terminal: Terminal) -> None:
    access, *commands = _printed_commands(terminal.output)
    aws_send, oncely_send, aws_find, oncely_find = commands

    assert "MessageId" in terminal.run_in_second_terminal(access, aws_send)
    terminal.wait_for_output(lambda said: "job finished" in said)

    assert '"S": "finished"' in terminal.run_in_second_terminal(access, aws_find)
    assert "charged once" in terminal.run_in_second_terminal(oncely_find)
    assert "duplicate" in terminal.run_in_second_terminal(oncely_send)

    terminal.press("r")
    terminal.wait_for_output(lambda said: "Nothing changed." in said)

    found = RunningStack.find()
    assert found
    assert terminal.end() == 0
    assert not STATE_FILE.exists()
    assert not _is_reachable(found.endpoint)
    assert not _is_reachable(found.providers)


def _printed_commands(said: str) -> list[str]:
    _, _, block = said.partition("In another terminal:\n")
    joined = block.replace("\\\n", " ").splitlines()
    return [line.strip() for line in joined if re.match(r" +(export|aws|\.venv/bin/oncely) ", line)]


def _is_reachable(url: str) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)),
    ):
        return True
    return False
