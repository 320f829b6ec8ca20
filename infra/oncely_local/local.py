"""`make local`: the stack runs on this machine until Ctrl-C, and a key redeploys a change."""

import contextlib
import json
import sys
import threading
import time
import urllib.request
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from oncely.cli.errors import CommandError
from oncely.contracts.job import AnyJob
from oncely.contracts.message import encode_message
from oncely.jobs.payment_charge import PaymentCharge
from oncely.testing.sandbox import FaultKind
from oncely_local.account import LocalAccount
from oncely_local.engine import REGION, EngineError
from oncely_local.kept_data import KeptData
from oncely_local.logs import LogStream
from oncely_local.metrics import MetricForwarder
from oncely_local.project import local_project, queue_output
from oncely_local.redeploy import RunningStack, advertised, redeploy
from oncely_local.sample_data import (
    FIRST_ORDER,
    SAMPLE_PASSWORD,
    SAMPLE_USERS,
    create_sample_users,
    write_sample_data,
)
from oncely_local.stack import LocalStack, interrupt_on_signals, running_stack

BLOCK_HEADING: Final = "To send a message and find its job, paste this into another terminal:"
_ALREADY_RUNNING_EXIT_CODE: Final = 2
_POLL_SECONDS: Final = 1.0
_REDEPLOY_KEY: Final = "r"
_KEPT: Final = "The data is kept for the next start; --fresh deletes it."
_NOT_KEPT: Final = "No data is kept."
_STYLES: Final = {"ERROR": "red", "WARNING": "yellow"}


class LocalAction(StrEnum):
    """The actions of `make local`. All but `up` run in another terminal."""

    UP = "up"
    REDEPLOY = "redeploy"
    LOGS = "logs"
    LOSE_RESPONSE = "lose-response"


def local(
    action: Annotated[
        LocalAction,
        typer.Argument(help="up, or from another terminal: redeploy, logs, lose-response."),
    ] = LocalAction.UP,
    path: Annotated[
        str, typer.Argument(help="Path pattern of the requests whose response is dropped.")
    ] = "*",
    job_key: Annotated[
        str, typer.Option(help="Show only logs of job keys that contain this.")
    ] = "",
    times: Annotated[int, typer.Option(min=1, help="Number of responses to drop.")] = 1,
    *,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, without the data of earlier runs.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for the ports and data to keep (default: .build/local/kept)."),
    ] = None,
) -> None:
    """Run the stack until Ctrl-C. Press r + Enter to redeploy changed code."""
    # Print logs unchanged: `:secret:` is not an emoji.
    console = Console(highlight=False, emoji=False)
    match action:
        case LocalAction.UP:
            kept = KeptData(data or local_project().kept_folder)
            _start(console, job_key, kept, fresh=fresh)
        case LocalAction.REDEPLOY:
            redeploy_running(console)
        case LocalAction.LOGS:
            follow_logs(console, job_key=job_key)
        case LocalAction.LOSE_RESPONSE:
            lose_response(console, path=path, times=times)


def _start(console: Console, job_key: str, kept: KeptData, *, fresh: bool) -> None:
    if there := RunningStack.find():
        where = f"{there.endpoint} (process {there.pid})"
        console.print(f"The local stack is already running at {where}.")
        raise typer.Exit(_ALREADY_RUNNING_EXIT_CODE)
    if fresh or not kept.is_complete:
        kept.delete()
    try:
        with interrupt_on_signals(), contextlib.ExitStack() as exit_stack:
            with console.status("starting the local AWS and the provider sandbox…") as status:
                steps = running_stack(lambda step: status.update(f"{step}…"), kept=kept)
                stack = exit_stack.enter_context(steps)
                if not stack.is_restored:
                    write_sample_data(stack)
                    create_sample_users(stack)
            try:
                with advertised(stack):
                    run_until_interrupted(console, stack, order=str(FIRST_ORDER), job_key=job_key)
            except KeyboardInterrupt:
                console.print("Stopping, and saving the data…")
                kept.save(stack.engine, stack.sandbox)
                raise
    except KeyboardInterrupt:
        console.print(f"Stopped. {_KEPT if kept.is_complete else _NOT_KEPT}")


def run_until_interrupted(
    console: Console, stack: LocalStack, *, order: str, job_key: str = ""
) -> None:
    """Print the stack's addresses and its logs until Ctrl-C. The printed examples use `order`."""
    console.print(connection_info(stack, order=order), markup=False, soft_wrap=True)
    redeploy_requested = threading.Event()
    threading.Thread(target=_watch_stdin, args=(redeploy_requested,), daemon=True).start()
    metrics = MetricForwarder(stack.account)
    # The engine keeps logs, too. Those of an earlier start were printed and counted then.
    start_ms = int(time.time() * 1000) if stack.is_restored else 0
    logs = LogStream(stack.account, on_metrics=metrics.add, start_ms=start_ms)
    while stack.engine.is_alive():
        _print_logs(console, logs, job_key)
        metrics.flush()
        if redeploy_requested.wait(_POLL_SECONDS):
            redeploy_requested.clear()
            try:
                redeploy_running(console)
            except CommandError as error:
                console.print(error.message, markup=False)
    raise EngineError(f"The local AWS exited unexpectedly. See {stack.engine.log}")


def redeploy_running(console: Console) -> None:
    """Redeploy what changed to the running stack."""
    began = time.monotonic()
    after, done = redeploy(_running_stack())
    after.write()
    console.print(f"{done} ({time.monotonic() - began:.1f} s)")


def follow_logs(console: Console, *, job_key: str) -> None:
    """Print the logs of the running stack until it ends."""
    running = _running_stack()
    logs = LogStream(LocalAccount(running.endpoint, running.stack))
    with contextlib.suppress(KeyboardInterrupt):
        while RunningStack.find() == running:
            _print_logs(console, logs, job_key)
            time.sleep(_POLL_SECONDS)


def lose_response(console: Console, *, path: str, times: int) -> None:
    """Let the provider sandbox execute the next matching requests and drop their responses."""
    fault = {"kind": FaultKind.ACCEPT_THEN_DROP, "path": path, "times": times}
    request = urllib.request.Request(  # noqa: S310  # the sandbox on this machine
        f"{_running_stack().providers}/_sandbox/faults",
        data=json.dumps(fault).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310  # as above
        pass
    what = "The next request" if times == 1 else f"The next {times} requests"
    said = f"{what} to {path}: executed by the provider, and the response is lost."
    console.print(said, markup=False, soft_wrap=True)


def _running_stack() -> RunningStack:
    if (running := RunningStack.find()) is None:
        raise CommandError("No local stack is running. Start one with `oncely local`.")
    return running


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
    """The addresses, and commands that send a message and find its job.

    Here it is the payment of an order; in a team's project, the example of its first job.
    """
    outputs, project = stack.outputs, stack.project
    first = project.jobs[0]
    job: AnyJob = first.model_validate(first.example_message())
    if project.is_clone:
        job = PaymentCharge(order_id=order)
    body = encode_message(job.to_dict())
    queue = outputs[queue_output(type(job))]
    row = f'{{"job_key": {{"S": "{job.job_key()}"}}}}'
    subject = job.subject_id() or job.job_key()
    users = " or ".join(f"{name} ({group})" for group, name in SAMPLE_USERS.items())
    names = [name for name in outputs if name.endswith("QueueUrl")]
    width = max(map(len, names))
    queues = [f"  {name:<{width}}  {outputs[name]}" for name in names]
    # Version 1 of the AWS CLI ignores the variable for SQS. Version 2 waits in a pager.
    aws = f"aws --endpoint-url {stack.engine.url}"
    access = "AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_PAGER="
    command, redeploy_command = "oncely", "oncely local redeploy"
    if project.is_clone:
        command, redeploy_command = ".venv/bin/oncely", "make local ARGS=redeploy"
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
            # Only commands, each on one line, so that the whole block can be pasted.
            BLOCK_HEADING,
            "",
            f"export AWS_ENDPOINT_URL={stack.engine.url} AWS_DEFAULT_REGION={REGION} {access}",
            f"{aws} sqs send-message --queue-url {queue} --message-body '{body}'",
            f"{command} send --local '{body}'",
            f"{aws} dynamodb get-item --table-name {outputs['JobsTableName']} --key '{row}'",
            f"{command} find --local {subject}",
            "",
            f"Press r + Enter to redeploy changes, or run `{redeploy_command}`. Ctrl-C stops.",
        )
    )
