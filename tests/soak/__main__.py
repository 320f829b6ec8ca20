"""`make soak`: real processes run thousands of jobs while they are killed, frozen or cut off."""

import argparse
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oncely.contracts.job import providers_of
from oncely.core.lifecycle import ENDED
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.testing.sandbox import Sandbox
from oncely_local.chaos import FAULT_PLANS, FaultLevel
from oncely_local.observer import LedgerTotals, Observer
from oncely_local.stack import LocalStack
from oncely_local.traffic import Traffic
from oncely_local.workload import Workload, generate_workload
from tests.soak.drain import Drain
from tests.soak.environment import (
    INVOCATION_SECONDS,
    create_environment,
    resolve_pending_effects,
)
from tests.soak.process_pool import ProcessPool
from tests.soak.report import SoakReport
from tests.soak.restartable_engine import RestartableEngine
from tests.soak.stream_history import StreamReader

TICK: Final = 0.2
# Everything is sent early, so that the faults also hit what remains.
SENDING_RATIO: Final = 0.7
MIN_ENDED_RATIO: Final = 0.8  # of the jobs must have ended under faults
MAX_OVERTIME_FACTOR: Final = 4  # times the requested minutes
LINE_EVERY: Final = 15.0
KILL_EVERY: Final = 4.0  # seconds, on average
FREEZE_EVERY: Final = 20.0
RESTART_EVERY: Final = 60.0


@dataclass
class FaultInjection:
    pool: ProcessPool
    engine: RestartableEngine
    stream: StreamReader
    rng: random.Random
    last_tick: float = 0.0

    def tick(self, now: float) -> None:
        """Inject the faults that are due since the last tick."""
        since, self.last_tick = now - self.last_tick, now
        self.pool.thaw(now)
        if self._occurs(KILL_EVERY, since):
            self.pool.kill()
        if self._occurs(FREEZE_EVERY, since):
            # Some are frozen briefly, some past their lease.
            self.pool.freeze(now, seconds=self.rng.uniform(1, 1.5 * INVOCATION_SECONDS))
        if self._occurs(RESTART_EVERY, since):
            self.stream.read()
            self.engine.restart(downtime_seconds=self.rng.uniform(0, 3))
        self.pool.replace_exited()

    def _occurs(self, every: float, since: float) -> bool:
        return self.rng.random() < since / every


def run_with_faults(
    stack: LocalStack,
    traffic: Traffic,
    faults: FaultInjection,
    workload: Workload,
    *,
    minutes: float,
) -> None:
    """Send each message at its time, while faults are injected.

    Faults continue until most jobs have ended, up to a limit.
    """
    observer = Observer(stack)
    wanted = MIN_ENDED_RATIO * len(workload.jobs)
    began = time.monotonic()
    lasts = 60 * minutes
    waiting = workload.messages
    ended = said = 0.0
    while (now := time.monotonic() - began) < lasts or (
        ended < wanted and now < MAX_OVERTIME_FACTOR * lasts
    ):
        due = [one for one in waiting if one.time_fraction * SENDING_RATIO * lasts <= now]
        waiting = waiting[len(due) :]
        traffic.send(due)
        faults.tick(now)
        if now - said > LINE_EVERY:
            said = now
            faults.stream.read()  # so that little is left to read before a restart
            seen = observer.jobs()
            ended = sum(seen[key].status in ENDED for key in workload.jobs if key in seen)
            _print_line(
                f"{now:4.0f} s: {traffic.sent} sent, {ended} ended, {dict(faults.pool.counts)}"
            )
        time.sleep(TICK)


def soak(*, minutes: float, jobs: int, seed: int) -> SoakReport:
    draw = random.Random(seed)  # noqa: S311  # repeatable, not secret
    workload: Workload = generate_workload(jobs=jobs, seed=seed)
    with ExitStack() as open_until_the_end:
        folder = Path(open_until_the_end.enter_context(tempfile.TemporaryDirectory()))
        sandbox = open_until_the_end.enter_context(Sandbox(providers_of(SHIPPED_JOBS), seed=seed))
        engine = RestartableEngine(folder)
        open_until_the_end.callback(engine.stop)
        ground = create_environment(engine.current, sandbox)
        traffic = Traffic(ground.stack, workload)
        traffic.prepare()
        FAULT_PLANS[FaultLevel.HEAVY].apply(sandbox.faults, map(type, sandbox.providers.values()))
        open_until_the_end.enter_context(resolve_pending_effects(ground.stack))
        crew = ProcessPool(ground.env_vars, folder / "crew.log", draw)
        open_until_the_end.callback(crew.end)
        crew.start()
        stream = StreamReader(ground.stack.account, ground.stack.outputs["JobsTableName"])
        faults = FaultInjection(crew, engine, stream, draw)
        run_with_faults(ground.stack, traffic, faults, workload, minutes=minutes)
        crew.end()
        sandbox.faults.clear()
        _print_line("the storm is over; what it left behind is cleared up")
        os.environ.update(ground.env_vars)
        warnings.simplefilter("ignore")  # as in the processes
        settling = Drain(ground, workload)
        rested = settling.run()
        for line in _unexpected_output(crew.log):
            _print_line(line)
        rows = settling.rows()
        return SoakReport(
            seed=seed,
            minutes=minutes,
            sent=traffic.sent,
            restarts=engine.restarts,
            is_drained=rested,
            process_counts=crew.counts,
            reported_counts=crew.reported_counts(),
            drain_counts=settling.counts,
            facts=Observer(ground.stack).final_state(workload),
            rows=rows,
            history=stream.finish(rows),
            totals=LedgerTotals.from_sandbox(sandbox),
        )


def _unexpected_output(log: Path) -> Iterator[str]:
    """The output of processes that died without being killed."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if not line.startswith("{")]
    if said:
        yield f"the processes also said {len(said)} lines, the last of them:"
        yield from said[-15:]


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="how long the storm lasts")
    parser.add_argument("--jobs", type=int, default=2000, help="how many jobs, roughly")
    parser.add_argument("--seed", type=int, default=1, help="draws the jobs and the storm")
    report = soak(**vars(parser.parse_args()))
    for line in report.lines():
        _print_line(line)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
