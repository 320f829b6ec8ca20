"""Runs MiniStack until its parent process exits, then kills it and its workers.

The engine's interpreter runs this file by path, so it imports nothing of this repository.
The parent holds the other end of a pipe and never writes to it. When it exits, even by SIGKILL,
the system closes that end and the read below returns, on Linux and on macOS.
"""

import importlib
import os
import runpy
import shutil
import signal
import tempfile
import threading
from typing import Any


def exit_with_parent(pipe: int) -> None:
    """Wait until the pipe closes, then kill this process group."""
    while os.read(pipe, 1):
        pass
    # The temporary folder belongs to this engine alone, and the parent cannot delete it.
    shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def exit_after_saving() -> None:
    """Let MiniStack end once it has written its data: some of its threads wait for minutes."""
    app: Any = importlib.import_module("ministack.app")
    save_all = app.save_all

    def save_and_exit(services: object) -> None:
        save_all(services)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    app.save_all = save_and_exit


def main() -> None:
    """Watch the pipe on standard input, and run MiniStack."""
    pipe = os.dup(0)
    # Workers must not inherit the pipe, so they get an empty standard input.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=exit_with_parent, args=(pipe,), daemon=True).start()
    exit_after_saving()
    runpy.run_module("ministack", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
