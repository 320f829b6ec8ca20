"""The engine's worker processes: list them, measure their memory, kill one."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
# The engine writes this file for each worker that it starts.
_WORKER: Final = "_worker.py"
# 10 ticks of Linux's CPU accounting.
_SAMPLE_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Process:
    """A process of this machine."""

    pid: int
    parent_pid: int
    memory_bytes: int  # resident; shared memory counts in each process
    cpu_seconds: float
    command: str


def list_workers(engine: int) -> list[Process]:
    """List the processes in which an engine runs functions."""
    return [one for one in _list_processes() if one.parent_pid == engine and _WORKER in one.command]


def list_busy_workers(engine: int) -> list[Process]:
    """List the workers that use CPU now. Returns all workers if none does."""
    before = {one.pid: one.cpu_seconds for one in list_workers(engine)}
    time.sleep(_SAMPLE_SECONDS)
    after = list_workers(engine)
    busy = [one for one in after if one.cpu_seconds > before.get(one.pid, one.cpu_seconds)]
    return busy or after


def memory_usage(root: int) -> int:
    """The memory of a process and its descendants, in bytes."""
    processes = {one.pid: one for one in _list_processes()}

    def belongs(one: Process) -> bool:
        while one.pid != root:
            if one.parent_pid not in processes or one.parent_pid == one.pid:
                return False
            one = processes[one.parent_pid]
        return True

    return sum(one.memory_bytes for one in processes.values() if belongs(one))


def kill_worker(worker: Process) -> bool:
    """Kill a worker, as the kernel's OOM killer would. Returns False if it has exited."""
    try:
        os.kill(worker.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _list_processes() -> Iterator[Process]:
    return _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps()


def _from_proc() -> Iterator[Process]:
    page, tick = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    for folder in _PROC.glob("[0-9]*"):
        try:
            # The name in parentheses can contain anything; numbers follow the last one.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it exited in the meantime
        parent, worked, pages = int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[21])
        words = command.replace(b"\0", b" ").decode("utf-8", "replace")
        yield Process(int(folder.name), parent, pages * page, worked / tick, words)


def _from_ps() -> Iterator[Process]:
    """List the processes on macOS."""
    listed = subprocess.run(
        ["/bin/ps", "-A", "-ww", "-o", "pid=,ppid=,rss=,time=,command="],
        capture_output=True,
        text=True,
        check=True,
    )
    for line in listed.stdout.splitlines():
        pid, parent, kilobytes, worked, command = line.split(None, 4)
        *hours, minutes, seconds = (float(part) for part in worked.split(":"))
        time_worked = sum(hours) * 3600 + minutes * 60 + seconds
        yield Process(int(pid), int(parent), int(kilobytes) * 1024, time_worked, command)
