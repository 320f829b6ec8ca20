"""Worker processes are listed by engine, and can be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncely_local import processes
from oncely_local.processes import kill_worker, list_busy_workers, list_workers, memory_usage

BUSY = "import sys; print('up', flush=True)\nwhile True: pass\n"
Pair = tuple["subprocess.Popen[bytes]", "subprocess.Popen[bytes]"]
IDLE = "import sys; print('up', flush=True)\nsys.stdin.read()\n"


def start_process(script: Path, code: str) -> "subprocess.Popen[bytes]":
    script.write_text(code)
    command = [sys.executable, str(script)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    folders = [tmp_path / name for name in ("busy", "idle")]
    for folder in folders:
        folder.mkdir()
    both = [
        start_process(folder / "_worker.py", code)
        for folder, code in zip(folders, (BUSY, IDLE), strict=True)
    ]
    yield both[0], both[1]
    for process in both:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("way", ["_from_proc", "_from_ps"])
def test_workers_are_found_below_their_engine(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if not Path("/proc/self/stat" if way == "_from_proc" else "/bin/ps").exists():
        pytest.skip("another system's way to list processes")
    monkeypatch.setattr(processes, "_list_processes", getattr(processes, way))
    busy, idle = pair

    assert {one.pid for one in list_workers(os.getpid())} == {busy.pid, idle.pid}
    assert memory_usage(busy.pid) > 1_000_000
    assert memory_usage(os.getpid()) > memory_usage(busy.pid) + memory_usage(idle.pid)


def test_busy_workers_are_told_from_idle(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough for a loaded machine.
    monkeypatch.setattr(processes, "_SAMPLE_SECONDS", 2.0)
    busy, _ = pair
    assert [one.pid for one in list_busy_workers(os.getpid())] == [busy.pid]


def test_worker_is_killed_once(pair: Pair) -> None:
    busy, idle = pair
    (worker,) = (one for one in list_workers(os.getpid()) if one.pid == busy.pid)

    assert kill_worker(worker)
    assert busy.wait() == -signal.SIGKILL
    assert not kill_worker(worker)
    assert idle.poll() is None
