"""`make local`: the stack runs on this machine until Ctrl-C, and a key redeploys a change."""

import contextlib
import os
import sys
import threading
import time
from enum import StrEnum
from typing import Final

from rich.console import Console

from oncely_local.account import LocalAccount
from oncely_local.deploy import DeployError
from oncely_local.engine import REGION, EngineError
from oncely_local.logs import LogStream
from oncely_local.redeploy import RunningStack, advertise, redeploy, source_digests
from oncely_local.sample_data import (
    FIRST_ORDER,
    SAMPLE_PASSWORD,
    SAMPLE_USERS,
    create_sample_users,
    write_sample_data,
)
from oncely_local.stack import LocalStack, interrupt_on_signals, running_stack

_ALREADY_RUNNING_EXIT_CODE: Final = 2
_POLL_SECONDS: Final = 1.0
_REDEPLOY_KEY: Final = "r"
_STYLES: Final = {"ERROR": "red", "WARNING": "yellow"}
_NOT_RUNNING: Final = "No local stack is running. Start one with `make local`."


class LocalAction(StrEnum):
    """The actions of `make local`. All but `up` run in another terminal."""

    UP = "up"
    REDEPLOY = "redeploy"
    LOGS = "logs"


def local(action: str = "up", *, job_key: str = "") -> int:
    """Run the stack, redeploy it, or follow its logs. Returns the exit code."""
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
        where = f"{there.endpoint} (process {there.pid})"
        console.print(f"The local stack is already running at {where}.")
        return _ALREADY_RUNNING_EXIT_CODE
    try:
        with interrupt_on_signals(), contextlib.ExitStack() as exit_stack:
            with console.status("starting the local AWS and the provider sandbox…") as status:
                steps = running_stack(lambda step: status.update(f"{step}…"))
                stack = exit_stack.enter_context(steps)
                write_sample_data(stack)
            run_until_interrupted(console, stack, order=str(FIRST_ORDER), job_key=job_key)
    except KeyboardInterrupt:
        return 0
    except (DeployError, EngineError) as error:
        console.print(str(error), markup=False)
    return 1


def run_until_interrupted(
    console: Console, stack: LocalStack, *, order: str, job_key: str = ""
) -> None:
    """Advertise the stack and print its logs until Ctrl-C. The printed examples use `order`."""
    create_sample_users(stack)
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
        console.print(connection_info(stack, order=order), markup=False, soft_wrap=True)
        redeploy_requested = threading.Event()
        threading.Thread(target=_watch_stdin, args=(redeploy_requested,), daemon=True).start()
        logs = LogStream(stack.account)
        while stack.engine.is_alive():
            _print_logs(console, logs, job_key)
            if redeploy_requested.wait(_POLL_SECONDS):
                redeploy_requested.clear()
                redeploy_running(console)
    raise EngineError(f"The local AWS exited unexpectedly. See {stack.engine.log}")


def redeploy_running(console: Console) -> int:
    """Redeploy what changed to the running stack. Returns 1 if that failed."""
    if (running := RunningStack.find()) is None:
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
    """Print the logs of the running stack until it ends."""
    if (running := RunningStack.find()) is None:
        console.print(_NOT_RUNNING)
        return 1
    logs = LogStream(LocalAccount(running.endpoint))
    with contextlib.suppress(KeyboardInterrupt):
        while RunningStack.find() == running:
            _print_logs(console, logs, job_key)
            time.sleep(_POLL_SECONDS)
    return 0


def _watch_stdin(redeploy_requested: threading.Event) -> None:
    for line in sys.stdin:
        if line.strip() == _REDEPLOY_KEY:
            redeploy_requested.set()


def _print_logs(console: Console, logs: LogStream, job_key: str) -> None:
    for line in logs.poll():
        if job_key in line.job_key:
            style = _STYLES.get(line.level)
            console.print(str(line), style=style, markup=False, soft_wrap=True)


def connection_info(stack: LocalStack, *, order: str) -> str:
    """The addresses, and commands that send a payment of an order and find its job."""
    outputs = stack.outputs
    body = f'{{"job": "payment.charge", "v": 1, "order_id": "{order}"}}'
    row = f'{{"job_key": {{"S": "payment.charge:order_{order}"}}}}'
    users = " or ".join(f"{name} ({group})" for group, name in SAMPLE_USERS.items())
    queues = [f"  {name:<22}{outputs[name]}" for name in outputs if name.endswith("QueueUrl")]
    # Version 1 of the AWS CLI ignores the variable for SQS.
    aws = f"aws --endpoint-url {stack.engine.url}"
    access = f"AWS_DEFAULT_REGION={REGION} AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test"
    return "\n".join(
        (
            "Oncely is running on this machine.",
            f"  endpoint      {stack.engine.url}",
            f"  providers     {stack.sandbox.url}  (ledger: /_sandbox/ledger)",
            f"  admin page    {outputs['AdminUrl']}",
            f"                sign in as {users}, password {SAMPLE_PASSWORD}",
            f"  engine log    {stack.engine.log}",
            "",
            *queues,
            "",
            "In another terminal:",
            f"  export AWS_ENDPOINT_URL={stack.engine.url} {access}",
            "Send a message:",
            f"  {aws} sqs send-message --queue-url {outputs['PaymentsQueueUrl']} \\",
            f"    --message-body '{body}'",
            f"  .venv/bin/oncely send --local '{body}'",
            "Find it:",
            f"  {aws} dynamodb get-item --table-name {outputs['JobsTableName']} \\",
            f"    --key '{row}'",
            f"  .venv/bin/oncely find --local {order}",
            "",
            "Press r + Enter to redeploy changes, or run `make local ARGS=redeploy`. Ctrl-C stops.",
        )
    )
