"""`python -m tests.soak.outage`: DynamoDB is cut off for some minutes while jobs arrive.

The stack is deployed into the local AWS. Only its functions' DynamoDB lies behind a switch, so SQS
and the providers keep working. No message may become a dead letter, and every job must end within 2
minutes of the recovery.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from oncely.core.lifecycle import ENDED
from oncely_local.observer import Observer
from oncely_local.stack import LocalStack, running_stack
from oncely_local.traffic import Traffic
from oncely_local.workload import Workload, generate_workload
from tests.soak.environment import resolve_pending_effects
from tests.soak.report import print_lines
from tests.soak.switched_proxy import SwitchedProxy

BEFORE_SECONDS: Final = 15.0  # some jobs are running when it begins
RECOVERY_SECONDS: Final = 120.0
MAX_WAIT_SECONDS: Final = 600.0
TICK: Final = 0.5


def unended(stack: LocalStack, workload: Workload) -> set[str]:
    """The jobs that have not ended; those of cancelled orders need an operator."""
    seen = Observer(stack).jobs()
    return {
        key
        for key in workload.jobs
        if "cancelled" not in key and (key not in seen or seen[key].status not in ENDED)
    }


def run_outage(*, minutes: float, jobs: int, seed: int) -> Iterator[str]:
    workload = generate_workload(jobs=jobs, seed=seed)
    with ExitStack() as open_until_the_end:
        folder = Path(open_until_the_end.enter_context(tempfile.TemporaryDirectory()))
        stack = open_until_the_end.enter_context(
            running_stack(lambda _: None, log=folder / "engine.log", seed=seed)
        )
        proxy = open_until_the_end.enter_context(SwitchedProxy(stack.engine.url))
        _put_functions_behind(proxy, stack)
        _keep_dead_letters(stack)
        traffic = Traffic(stack, workload)
        traffic.prepare()
        open_until_the_end.enter_context(resolve_pending_effects(stack))
        _send_during_outage(traffic, workload, proxy, minutes=minutes)
        recovered, left = time.monotonic(), unended(stack, workload)
        yield f"recovered after {minutes:g} minutes: {len(left)} of {len(workload.jobs)} jobs open"
        while left and time.monotonic() - recovered < MAX_WAIT_SECONDS:
            time.sleep(TICK)
            left = unended(stack, workload)
        took = time.monotonic() - recovered
        yield f"{proxy.refused} connections refused"
        yield f"every job ended {took:.0f} s after the recovery"
        if left or took > RECOVERY_SECONDS:
            yield f"VIOLATED: {len(left)} jobs open: {sorted(left)[:5]}"
        if Observer(stack).depths()["dead letters"].waiting:
            yield "VIOLATED: there are dead letters"


def _put_functions_behind(proxy: SwitchedProxy, stack: LocalStack) -> None:
    functions = stack.account.client("lambda")
    for page in functions.get_paginator("list_functions").paginate():
        for one in page["Functions"]:
            variables = one.get("Environment", {}).get("Variables", {})
            functions.update_function_configuration(
                FunctionName=one["FunctionName"],
                Environment={"Variables": {**variables, "AWS_ENDPOINT_URL_DYNAMODB": proxy.url}},
            )


def _keep_dead_letters(stack: LocalStack) -> None:
    """Stop their consumer, so that every one can be counted at the end."""
    functions = stack.account.client("lambda")
    for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
        if "DeadLetter" in mapping["EventSourceArn"]:
            functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
            return
    raise LookupError("no function consumes the dead letters")


def _send_during_outage(
    traffic: Traffic, workload: Workload, proxy: SwitchedProxy, *, minutes: float
) -> None:
    lasts, waiting, began = 60 * minutes, workload.messages, time.monotonic()
    is_off = False
    while (now := time.monotonic() - began) < BEFORE_SECONDS + lasts:
        due = [one for one in waiting if one.time_fraction * (BEFORE_SECONDS + lasts) <= now]
        waiting = waiting[len(due) :]
        traffic.send(due)
        if not is_off and now >= BEFORE_SECONDS:
            proxy.switch_off()
            is_off = True
        time.sleep(TICK)
    traffic.send(waiting)
    proxy.switch_on()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.outage", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long DynamoDB is cut off")
    parser.add_argument("--jobs", type=int, default=300, help="how many jobs, roughly")
    parser.add_argument("--seed", type=int, default=1, help="draws the jobs")
    return print_lines(run_outage(**vars(parser.parse_args())))


if __name__ == "__main__":
    sys.exit(main())
