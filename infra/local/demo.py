"""`make demo`: hundreds of jobs through the whole stack while everything around them goes wrong."""

import contextlib
from collections.abc import Mapping
from typing import Final

from rich.console import Console

from infra.local.account import Account
from infra.local.chaos import Killer
from infra.local.demo_run import DemoRun
from infra.local.deploy import HOME, DeployError
from infra.local.ending import ended_by_signals
from infra.local.engine import EngineError
from infra.local.observer import QUEUES
from infra.local.stack import LocalStack, running_stack
from infra.local.staying import stay
from infra.local.trouble import TROUBLE, Level
from infra.local.workload import FIRST_ORDER, plan
from infra.stages import Stage
from oncely.contracts import CONTRACTS
from oncely.domain.jobs import CLOCK_SKEW

# Not the one of `make local`, which may be up beside it.
ENGINE_LOG: Final = HOME / "demo-engine.log"
_INTERRUPTED: Final = 130
# Messages come back a little after the lease, so that they find it over.
_AFTER_THE_LEASE: Final = 3


def demo(
    *,
    jobs: int = 300,
    seed: int = 1,
    faults: str = "some",
    keep: bool = False,
    ignore_keys: bool = False,
) -> int:
    """Run it and print the report; 1 if the promise was broken, or nothing could be run."""
    console = Console()
    try:
        with ended_by_signals(), contextlib.ExitStack() as until_the_end:
            with console.status("starting the local AWS and the providers…") as status:
                steps = running_stack(
                    lambda step: status.update(f"{step}…"),
                    log=ENGINE_LOG,
                    honours_keys=not ignore_keys,
                    seed=seed,
                )
                stack = until_the_end.enter_context(steps)
                run = _prepared(stack, jobs=jobs, seed=seed, level=Level(faults))
            report = run.play(console)
            console.print(report.render())
            code = 0 if report.verdict.kept else 1
            if keep:
                with contextlib.suppress(KeyboardInterrupt):
                    stay(console, stack, order=FIRST_ORDER)
            return code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (DeployError, EngineError) as error:
        console.print(str(error), markup=False)
        return 1


def _prepared(stack: LocalStack, *, jobs: int, seed: int, level: Level) -> DemoRun:
    trouble = TROUBLE[level]
    trouble.upon(stack.sandbox.faults)
    killer = Killer(stack, trouble.kills(seed), seed)
    run = DemoRun(stack, plan(jobs=jobs, seed=seed), killer)
    run.prepare()
    hurry(stack.account, stack.outputs)
    return run


def hurry(account: Account, outputs: Mapping[str, str]) -> None:
    """Let the messages of killed workers return soon after the lease, not after six timeouts."""
    timeout = Stage.of({"stage": "local"}, CONTRACTS).worker_timeout_seconds
    longest = max(kind.terms.profile.request_timeout for kind in CONTRACTS)
    lease = timeout + (longest + CLOCK_SKEW).total_seconds()
    visibility = str(int(lease) + _AFTER_THE_LEASE)
    for output in QUEUES.values():
        account.client("sqs").set_queue_attributes(
            QueueUrl=outputs[output], Attributes={"VisibilityTimeout": visibility}
        )
