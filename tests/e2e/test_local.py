"""`make local`: the printed commands work unchanged, and no process stays behind."""

import contextlib
import os
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
from oncely_local.cdk_cli import find_cdk
from oncely_local.local import BLOCK_HEADING
from oncely_local.project import local_project
from oncely_local.redeploy import RunningStack
from tests.support.engines import skip_or_fail

TIMEOUT_SECONDS = 120.0


class Terminal:
    def __init__(self, said: Path, data: Path) -> None:
        self._output = said
        self._path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        with said.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "oncely_local", "local", "--data", data],
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
            # Only the exported variables.
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
    if find_cdk() is None:
        skip_or_fail("no CDK command line: `make setup` installs it")
    if RunningStack.find():
        pytest.skip("`make local` is up here: its stack is not ours to end")
    with started(tmp_path) as terminal:
        yield terminal


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Terminal]:
    terminal = Terminal(folder / "said.txt", folder / "kept")
    with terminal.process:
        try:
            terminal.wait_for_output(lambda said: "Ctrl-C stops." in said)
            yield terminal
        finally:
            terminal.end()


def test_printed_block_sends_message_and_finds_job_also_after_restart(
    terminal: Terminal, tmp_path: Path
) -> None:
    block = _printed_block(terminal.output)
    access, aws_send, oncely_send, aws_find, oncely_find = block.splitlines()
    assert access.endswith(" AWS_PAGER="), "version 2 of the AWS CLI would wait in a pager"

    assert "MessageId" in terminal.run_in_second_terminal(access, aws_send)
    terminal.wait_for_output(lambda said: "job finished" in said)

    assert '"S": "finished"' in terminal.run_in_second_terminal(access, aws_find)
    assert "charged once" in terminal.run_in_second_terminal(oncely_find)
    assert "duplicate" in terminal.run_in_second_terminal(oncely_send)

    lose = ".venv/bin/oncely local lose-response '/v1/refunds*' --times 2"
    assert "The next 2 requests to /v1/refunds*" in terminal.run_in_second_terminal(lose)

    terminal.press("r")
    terminal.wait_for_output(lambda said: "Nothing changed." in said)

    found = RunningStack.find()
    assert found
    assert terminal.end() == 0
    assert not local_project().state_file.exists()
    assert not _is_reachable(found.endpoint)
    assert not _is_reachable(found.providers)
    assert "Stopped. The data is kept" in terminal.output

    with started(tmp_path) as again:
        assert _printed_block(again.output) == block, "the ports are the same"
        # As one block, as a user pastes it.
        pasted = again.run_in_second_terminal(block)
        assert "duplicate" in pasted
        assert "charged once" in pasted
    assert again.process.returncode == 0


def _printed_block(said: str) -> str:
    return said.partition(f"{BLOCK_HEADING}\n\n")[2].partition("\n\n")[0]


def _is_reachable(url: str) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)),
    ):
        return True
    return False
