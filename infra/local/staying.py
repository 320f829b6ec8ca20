"""A stack that stays up: its addresses, what its functions say, and a key that deploys a change."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

from rich.console import Console

from infra.local.account import Account
from infra.local.addresses import addresses
from infra.local.deploy import DeployError
from infra.local.engine import EngineError
from infra.local.logs import LogStream
from infra.local.people import let_people_in
from infra.local.redeploy import digests, redeploy
from infra.local.stack import LocalStack
from infra.local.state import Running, announced

_LOOK_SECONDS: Final = 1.0
_REDEPLOY: Final = "r"
_STYLES: Final = {"ERROR": "red", "WARNING": "yellow"}
_NONE: Final = "No stack is up here: `make local` starts one."


def stay(console: Console, stack: LocalStack, *, order: str, key: str = "") -> None:
    """Let others find the stack, and show what its functions say, until somebody ends it.

    `order` is one to try the printed commands with.
    """
    let_people_in(stack)
    with _findable(stack):
        console.print(addresses(stack, order=order), markup=False, soft_wrap=True)
        wanted = threading.Event()
        threading.Thread(target=_listen, args=(wanted,), daemon=True).start()
        logs = LogStream(stack.account)
        while stack.engine.is_alive():
            _show(console, logs, key)
            if wanted.wait(_LOOK_SECONDS):
                wanted.clear()
                deploy_change(console)
    raise EngineError(f"the local AWS ended by itself: {stack.log} tells why")


def deploy_change(console: Console) -> int:
    """Bring what changed to the stack that is up; 1 if that failed."""
    running = Running.find()
    if running is None:
        console.print(_NONE)
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


def follow(console: Console, *, key: str) -> int:
    """Show what the functions of the stack that is up say."""
    running = Running.find()
    if running is None:
        console.print(_NONE)
        return 1
    logs = LogStream(Account(running.endpoint))
    with contextlib.suppress(KeyboardInterrupt):
        while Running.find() == running:
            _show(console, logs, key)
            time.sleep(_LOOK_SECONDS)
    return 0


@contextlib.contextmanager
def _findable(stack: LocalStack) -> Iterator[None]:
    code, shape = digests()
    running = Running(
        pid=os.getpid(),
        endpoint=stack.engine.url,
        providers=stack.sandbox.url,
        outputs=stack.outputs,
        code=code,
        shape=shape,
    )
    with announced(running):
        yield


def _listen(wanted: threading.Event) -> None:
    for line in sys.stdin:
        if line.strip() == _REDEPLOY:
            wanted.set()


def _show(console: Console, logs: LogStream, key: str) -> None:
    for line in logs.new():
        if key in line.job_key:
            style = _STYLES.get(line.level)
            console.print(str(line), style=style, markup=False, soft_wrap=True)
