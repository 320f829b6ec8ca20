"""Runs MiniStack until the process that started it is gone, then ends it and its workers.

The engine's own interpreter runs this file by its path, so it imports nothing of this repository.
The starter holds the other end of a pipe and writes nothing to it: however it ends, even killed,
the system closes that end, and the read below returns. This works on Linux and on macOS alike.
"""

import os
import runpy
import shutil
import signal
import tempfile
import threading


def exit_with_parent(pipe: int) -> None:
    """Wait for the far end of the pipe to close, then kill this process group."""
    while os.read(pipe, 1):
        pass
    # Nobody else is left to remove it; the temporary folder is this engine's alone.
    shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Take the leash off standard input, watch it, and become MiniStack."""
    pipe = os.dup(0)
    # A worker that inherited the pipe could read from it; it gets an empty input instead.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=exit_with_parent, args=(pipe,), daemon=True).start()
    runpy.run_module("ministack", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
