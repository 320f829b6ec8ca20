"""`make local`: the stack stays up on this machine until Ctrl-C, and a key deploys a change."""

import contextlib
from enum import StrEnum
from typing import Final

from rich.console import Console

from oncely_local.deploy import DeployError
from oncely_local.engine import EngineError
from oncely_local.interactive import follow_logs, redeploy_running, run_until_interrupted
from oncely_local.sample_data import FIRST_ORDER, write_sample_data
from oncely_local.shutdown import interrupt_on_signals
from oncely_local.stack import running_stack
from oncely_local.state_file import RunningStack

_ALREADY_RUNNING_EXIT_CODE: Final = 2


class LocalAction(StrEnum):
    """What `make local` can do; all but the first from another terminal."""

    UP = "up"
    REDEPLOY = "redeploy"
    LOGS = "logs"


def local(action: str = "up", *, job_key: str = "") -> int:
    """Run the stack, deploy a change to it, or follow the logs of a job."""
    console = Console(highlight=False)
    match LocalAction(action):
        case LocalAction.UP:
            return _start(console, job_key)
        case LocalAction.REDEPLOY:
            return redeploy_running(console)
        case LocalAction.LOGS:
            return follow_logs(console, job_key=job_key)


def _start(console: Console, job_key: str) -> int:
    if there := RunningStack.find():
        console.print(f"It is up already, at {there.endpoint} (process {there.pid}).")
        return _ALREADY_RUNNING_EXIT_CODE
    try:
        with interrupt_on_signals(), contextlib.ExitStack() as until_the_end:
            with console.status("starting the local AWS and the providers…") as status:
                stack = until_the_end.enter_context(
                    running_stack(lambda step: status.update(f"{step}…"))
                )
                write_sample_data(stack)
            run_until_interrupted(console, stack, order=str(FIRST_ORDER), job_key=job_key)
    except KeyboardInterrupt:
        return 0
    except (DeployError, EngineError) as error:
        console.print(str(error), markup=False)
    return 1
