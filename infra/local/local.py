"""`make local`: the stack stays up on this machine until Ctrl-C, and a key deploys a change."""

import contextlib
from enum import StrEnum
from typing import Final

from rich.console import Console

from infra.local.deploy import DeployError
from infra.local.ending import ended_by_signals
from infra.local.engine import EngineError
from infra.local.samples import FIRST_ORDER, write_samples
from infra.local.stack import running_stack
from infra.local.state import Running
from infra.local.staying import deploy_change, follow, stay

_BUSY: Final = 2


class Action(StrEnum):
    """What `make local` can do; all but the first from another terminal."""

    UP = "up"
    REDEPLOY = "redeploy"
    LOGS = "logs"


def local(action: str = "up", *, key: str = "") -> int:
    """Run the stack, deploy a change to it, or follow the logs of a job."""
    console = Console(highlight=False)
    match Action(action):
        case Action.UP:
            return _up(console, key)
        case Action.REDEPLOY:
            return deploy_change(console)
        case Action.LOGS:
            return follow(console, key=key)


def _up(console: Console, key: str) -> int:
    if there := Running.find():
        console.print(f"It is up already, at {there.endpoint} (process {there.pid}).")
        return _BUSY
    try:
        with ended_by_signals(), contextlib.ExitStack() as until_the_end:
            with console.status("starting the local AWS and the providers…") as status:
                stack = until_the_end.enter_context(
                    running_stack(lambda step: status.update(f"{step}…"))
                )
                write_samples(stack)
            stay(console, stack, order=str(FIRST_ORDER), key=key)
    except KeyboardInterrupt:
        return 0
    except (DeployError, EngineError) as error:
        console.print(str(error), markup=False)
    return 1
