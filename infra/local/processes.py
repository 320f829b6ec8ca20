"""The engine's worker processes: which there are, how much memory all take, and ending one."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
# The engine writes this file for each worker that it starts.
_WORKER: Final = "_worker.py"


@dataclass(frozen=True)
class Process:
    """One process of this machine."""

    pid: int
    parent: int
    memory: int  # bytes that lie in memory; what is shared with others counts in each
    command: str


def workers_of(engine: int) -> list[Process]:
    """The processes in which an engine runs functions."""
    return [one for one in _all() if one.parent == engine and _WORKER in one.command]


def memory_of(root: int) -> int:
    """What a process and all below it take together."""
    processes = {one.pid: one for one in _all()}

    def belongs(one: Process) -> bool:
        while one.pid != root:
            if one.parent not in processes or one.parent == one.pid:
                return False
            one = processes[one.parent]
        return True

    return sum(one.memory for one in processes.values() if belongs(one))


def kill(worker: Process) -> bool:
    """End a worker at once, as the kernel does with one that takes too much memory."""
    try:
        os.kill(worker.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _all() -> Iterator[Process]:
    return _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps()


def _from_proc() -> Iterator[Process]:
    page = os.sysconf("SC_PAGE_SIZE")
    for folder in _PROC.glob("[0-9]*"):
        try:
            # The name in brackets may hold anything; what follows the last one is numbers.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue  # it ended while we looked
        yield Process(int(folder.name), int(fields[1]), int(fields[21]) * page, command)


def _from_ps() -> Iterator[Process]:
    """The same on macOS."""
    listed = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid=,rss=,command="],
        capture_output=True,
        text=True,
        check=True,
    )
    for line in listed.stdout.splitlines():
        pid, parent, kilobytes, command = line.split(None, 3)
        yield Process(int(pid), int(parent), int(kilobytes) * 1024, command)
