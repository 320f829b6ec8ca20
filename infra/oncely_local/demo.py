"""`make demo`: hundreds of jobs through the whole stack while everything around them goes wrong."""

import contextlib
from collections.abc import Mapping
from typing import Final

from rich.console import Console

from oncely.domain.jobs import CLOCK_SKEW
from oncely.jobs import CONTRACTS
from oncely_cdk.stages import Stage
from oncely_local.account import LocalAccount
from oncely_local.chaos import WorkerKiller
from oncely_local.demo_run import DemoRun
from oncely_local.deploy import BUILD_FOLDER, DeployError
from oncely_local.engine import EngineError
from oncely_local.fault_levels import FAULT_PLANS, FaultLevel
from oncely_local.interactive import run_until_interrupted
from oncely_local.observer import QUEUE_OUTPUTS
from oncely_local.shutdown import interrupt_on_signals
from oncely_local.stack import LocalStack, running_stack
from oncely_local.workload import FIRST_ORDER, generate_workload

# Not the one of `make local`, which may be up beside it.
ENGINE_LOG: Final = BUILD_FOLDER / "demo-engine.log"
_INTERRUPTED_EXIT_CODE: Final = 130
# Messages come back a little after the lease, so that they find it over.
_LEASE_MARGIN_SECONDS: Final = 3


def demo(
    *,
    jobs: int = 300,
    seed: int = 1,
    faults: str = "some",
    keep_running: bool = False,
    ignore_idempotency_keys: bool = False,
) -> int:
    """Run it and print the report; 1 if the promise was broken, or nothing could be run."""
    console = Console()
    try:
        with interrupt_on_signals(), contextlib.ExitStack() as until_the_end:
            with console.status("starting the local AWS and the providers…") as status:
                steps = running_stack(
                    lambda step: status.update(f"{step}…"),
                    log=ENGINE_LOG,
                    honors_idempotency_keys=not ignore_idempotency_keys,
                    seed=seed,
                )
                stack = until_the_end.enter_context(steps)
                run = _prepare_run(stack, jobs=jobs, seed=seed, level=FaultLevel(faults))
            report = run.run(console)
            console.print(report.render())
            code = 0 if report.verdict.is_kept else 1
            if keep_running:
                with contextlib.suppress(KeyboardInterrupt):
                    run_until_interrupted(console, stack, order=FIRST_ORDER)
            return code
    except KeyboardInterrupt:
        return _INTERRUPTED_EXIT_CODE
    except (DeployError, EngineError) as error:
        console.print(str(error), markup=False)
        return 1


def _prepare_run(stack: LocalStack, *, jobs: int, seed: int, level: FaultLevel) -> DemoRun:
    fault_plan = FAULT_PLANS[level]
    fault_plan.apply(stack.sandbox.faults)
    killer = WorkerKiller(stack, fault_plan.kill_intervals(seed), seed)
    run = DemoRun(stack, generate_workload(jobs=jobs, seed=seed), killer)
    run.prepare()
    shorten_visibility(stack.account, stack.outputs)
    return run


def shorten_visibility(account: LocalAccount, outputs: Mapping[str, str]) -> None:
    """Let the messages of killed workers return soon after the lease, not after six timeouts."""
    timeout = Stage.from_context({"stage": "local"}, CONTRACTS).worker_timeout_seconds
    max_request_timeout = max(
        contract_type.policy.profile.request_timeout for contract_type in CONTRACTS
    )
    lease = timeout + (max_request_timeout + CLOCK_SKEW).total_seconds()
    visibility = str(int(lease) + _LEASE_MARGIN_SECONDS)
    for output in QUEUE_OUTPUTS.values():
        account.client("sqs").set_queue_attributes(
            QueueUrl=outputs[output], Attributes={"VisibilityTimeout": visibility}
        )
