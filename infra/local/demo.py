"""`make demo`: hundreds of jobs through the whole stack while everything around them goes wrong."""

import contextlib
import threading

from rich.console import Console

from infra.local.chaos import Killer
from infra.local.demo_run import DemoRun
from infra.local.stack import LocalStack, running_stack
from infra.local.trouble import TROUBLE, Level
from infra.local.workload import plan
from infra.stages import Stage
from oncely.contracts import CONTRACTS
from oncely.domain.jobs import CLOCK_SKEW


def demo(
    *,
    jobs: int = 300,
    seed: int = 1,
    faults: str = "some",
    keep: bool = False,
    ignore_keys: bool = False,
) -> int:
    """Run it and print the report; 1 if the promise was broken."""
    console = Console()
    trouble = TROUBLE[Level(faults)]
    with contextlib.ExitStack() as open_until_the_end:
        with console.status("starting the local AWS and the providers…") as status:
            stack = open_until_the_end.enter_context(
                running_stack(
                    lambda step: status.update(f"{step}…"), honours_keys=not ignore_keys, seed=seed
                )
            )
            trouble.upon(stack.sandbox.faults)
            killer = Killer(stack, trouble.kills(seed), seed)
            run = DemoRun(stack, plan(jobs=jobs, seed=seed), killer)
            run.prepare()
            _hurry(stack)
        report = run.play(console)
        console.print(report.render())
        if keep:
            _stay(stack, console)
        return 0 if report.verdict.kept else 1


def _hurry(stack: LocalStack) -> None:
    """Let the messages of killed workers return soon after the lease, not after six timeouts."""
    timeout = Stage.of({"stage": "local"}, CONTRACTS).worker_timeout
    longest = max(kind.terms.profile.request_timeout for kind in CONTRACTS)
    lease = timeout + (longest + CLOCK_SKEW).total_seconds()
    for output in ("PaymentsQueueUrl", "SyncQueueUrl", "MailQueueUrl"):
        stack.account.client("sqs").set_queue_attributes(
            QueueUrl=stack.outputs[output], Attributes={"VisibilityTimeout": str(int(lease) + 3)}
        )


def _stay(stack: LocalStack, console: Console) -> None:
    console.print(f"\nIt stays up until Ctrl-C.\n  endpoint   {stack.engine.url}")
    console.print(f"  providers  {stack.sandbox.url}/_sandbox/ledger")
    for name, url in stack.outputs.items():
        console.print(f"  {name:<22} {url}")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
