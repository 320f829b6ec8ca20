"""A stack that stays up: its addresses, what its functions say, and a key that deploys a change."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

from rich.console import Console

from oncely_local.account import LocalAccount
from oncely_local.addresses import connection_info
from oncely_local.deploy import DeployError
from oncely_local.engine import EngineError
from oncely_local.logs import LogStream
from oncely_local.redeploy import redeploy, source_digests
from oncely_local.sample_users import create_sample_users
from oncely_local.stack import LocalStack
from oncely_local.state_file import RunningStack, advertise

_POLL_SECONDS: Final = 1.0
_REDEPLOY_KEY: Final = "r"
_STYLES: Final = {"ERROR": "red", "WARNING": "yellow"}
_NOT_RUNNING: Final = "No stack is up here: `make local` starts one."


def run_until_interrupted(
    console: Console, stack: LocalStack, *, order: str, job_key: str = ""
) -> None:
    """Let others find the stack, and show what its functions say, until somebody ends it.

    `order` is one to try the printed commands with.
    """
    create_sample_users(stack)
    with _advertised(stack):
        console.print(connection_info(stack, order=order), markup=False, soft_wrap=True)
        redeploy_requested = threading.Event()
        threading.Thread(target=_watch_stdin, args=(redeploy_requested,), daemon=True).start()
        logs = LogStream(stack.account)
        while stack.engine.is_alive():
            _print_logs(console, logs, job_key)
            if redeploy_requested.wait(_POLL_SECONDS):
                redeploy_requested.clear()
                redeploy_running(console)
    raise EngineError(f"the local AWS ended by itself: {stack.log} tells why")


def redeploy_running(console: Console) -> int:
    """Bring what changed to the stack that is up; 1 if that failed."""
    running = RunningStack.find()
    if running is None:
        console.print(_NOT_RUNNING)
        return 1
    began = time.monotonic()
    try:
        after, done = redeploy(running)
    except DeployError as error:
        console.print(str(error), markup=False)
        return 1
    after.write()
    console.print(f"{done} ({time.monotonic() - began:.1f} s)")
    return 0


def follow_logs(console: Console, *, job_key: str) -> int:
    """Show what the functions of the stack that is up say."""
    running = RunningStack.find()
    if running is None:
        console.print(_NOT_RUNNING)
        return 1
    logs = LogStream(LocalAccount(running.endpoint))
    with contextlib.suppress(KeyboardInterrupt):
        while RunningStack.find() == running:
            _print_logs(console, logs, job_key)
            time.sleep(_POLL_SECONDS)
    return 0


@contextlib.contextmanager
def _advertised(stack: LocalStack) -> Iterator[None]:
    code, shape = source_digests()
    running = RunningStack(
        pid=os.getpid(),
        endpoint=stack.engine.url,
        providers=stack.sandbox.url,
        outputs=stack.outputs,
        code=code,
        shape=shape,
    )
    with advertise(running):
        yield


def _watch_stdin(redeploy_requested: threading.Event) -> None:
    for line in sys.stdin:
        if line.strip() == _REDEPLOY_KEY:
            redeploy_requested.set()


def _print_logs(console: Console, logs: LogStream, job_key: str) -> None:
    for line in logs.poll():
        if job_key in line.job_key:
            style = _STYLES.get(line.level)
            console.print(str(line), style=style, markup=False, soft_wrap=True)
