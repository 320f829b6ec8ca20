"""Runs Python commands in forked processes that have done their imports.

Starting an interpreter and importing boto3 takes a second. Forking takes a few milliseconds.
"""

import importlib
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import Final

_MODULES: Final = {"aws": "awscli.clidriver", "oncely": "oncely.cli.main"}
_PRELOADED: Final = (
    *(*_MODULES.values(), "awscli.handlers", "rich.console", "rich.table", "stripe"),
    *("oncely.app", "oncely.jobs.shipped", "tests.support.cli_preload"),
)
_SET_BY_AWSCLI: Final = ("AWS_DATA_PATH",)  # when it is imported
_CONTEXT: Final = multiprocessing.get_context("forkserver")


def run_command(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin_text: str = "",
    timeout: float = 120,
) -> "CompletedProcess[str]":
    _CONTEXT.set_forkserver_preload(list(_PRELOADED))
    with TemporaryDirectory() as folder:
        streams = Path(folder)
        (streams / "in").write_text(stdin_text)
        process = _CONTEXT.Process(
            target=_start_process, args=(list(arguments), dict(env), cwd, streams)
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"{' '.join(arguments)} took more than {timeout:.0f} s")
        outputs = [(streams / name).read_text(encoding="utf-8") for name in ("out", "err")]
        return CompletedProcess(list(arguments), process.exitcode, *outputs)


def _start_process(arguments: list[str], env: dict[str, str], cwd: Path, streams: Path) -> None:
    set_by_awscli = {name: os.environ[name] for name in _SET_BY_AWSCLI if name in os.environ}
    os.environ.clear()
    os.environ.update(env | set_by_awscli)
    os.chdir(cwd)
    sys.argv = arguments
    sys.stdin = (streams / "in").open(encoding="utf-8")
    for number, name in ((1, "out"), (2, "err")):
        file = (streams / name).open("w", encoding="utf-8")
        os.dup2(file.fileno(), number)
        setattr(sys, f"std{name}", file)
    try:
        main = importlib.import_module(_MODULES[arguments[0]])
        sys.exit(main.run() if arguments[0] == "oncely" else main.main())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
