"""`make soak`: real processes work thousands of jobs while they are killed, frozen and cut off."""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.local.chaos import Bank
from infra.local.observer import Observer
from infra.local.sandbox import ProviderSandbox
from infra.local.stack import LocalStack
from infra.local.traffic import Traffic
from infra.local.trouble import TROUBLE, Level
from infra.local.workload import Workload, plan
from oncely.domain.lifecycle import ENDED
from tests.soak.crew import Crew
from tests.soak.ground import INVOCATION, prepared
from tests.soak.lasting_engine import LastingEngine
from tests.soak.report import Report
from tests.soak.settling import Settling

TICK: Final = 0.2
# All is sent in the first part of the time, so that the storm also meets what is left over.
SENDING: Final = 0.7
MOST: Final = 0.8  # of the jobs must have ended in the storm
LONGEST: Final = 4  # times the minutes that were asked for
LINE_EVERY: Final = 15.0
KILL_EVERY: Final = 4.0  # seconds, on average
FREEZE_EVERY: Final = 20.0
RESTART_EVERY: Final = 60.0


@dataclass
class Storm:
    """What is done to the processes and to the engine, drawn from one seed."""

    crew: Crew
    engine: LastingEngine
    draw: random.Random
    last: float = 0.0

    def tick(self, now: float) -> None:
        """Do what falls into the time since the last tick."""
        since, self.last = now - self.last, now
        self.crew.thaw(now)
        if self._strikes(KILL_EVERY, since):
            self.crew.kill()
        if self._strikes(FREEZE_EVERY, since):
            # Some are held up for a moment, some past their lease.
            self.crew.freeze(now, seconds=self.draw.uniform(1, 1.5 * INVOCATION))
        if self._strikes(RESTART_EVERY, since):
            self.engine.restart(away=self.draw.uniform(0, 3))
        self.crew.replace_the_dead()

    def _strikes(self, every: float, since: float) -> bool:
        return self.draw.random() < since / every


def storm(
    stack: LocalStack, traffic: Traffic, weather: Storm, workload: Workload, *, minutes: float
) -> None:
    """Send everything, each in its moment, while the weather lasts.

    It lasts until most jobs have met it, however slow the machine; within reason.
    """
    observer = Observer(stack)
    wanted = MOST * len(workload.jobs)
    began = time.monotonic()
    lasts = 60 * minutes
    waiting = workload.sendings
    ended = said = 0.0
    while (now := time.monotonic() - began) < lasts or (ended < wanted and now < LONGEST * lasts):
        due = [one for one in waiting if one.at * SENDING * lasts <= now]
        waiting = waiting[len(due) :]
        traffic.send(due)
        weather.tick(now)
        if now - said > LINE_EVERY:
            said = now
            seen = observer.jobs()
            ended = sum(seen[key].status in ENDED for key in workload.jobs if key in seen)
            _say(f"{now:4.0f} s: {traffic.sent} sent, {ended} ended, {dict(weather.crew.counts)}")
        time.sleep(TICK)


def soak(*, minutes: float, jobs: int, seed: int) -> Report:
    """The whole of it."""
    draw = random.Random(seed)  # noqa: S311  # repeatable, not secret
    workload: Workload = plan(jobs=jobs, seed=seed)
    with ExitStack() as open_until_the_end:
        folder = Path(open_until_the_end.enter_context(tempfile.TemporaryDirectory()))
        sandbox = open_until_the_end.enter_context(ProviderSandbox(seed=seed))
        engine = LastingEngine(folder)
        open_until_the_end.callback(engine.stop)
        ground = prepared(engine.current, sandbox)
        traffic = Traffic(ground.stack, workload)
        traffic.prepare()
        TROUBLE[Level.HEAVY].upon(sandbox.faults)
        open_until_the_end.enter_context(_open_bank(ground.stack))
        crew = Crew(ground.variables, folder / "crew.log", draw)
        open_until_the_end.callback(crew.end)
        crew.start()
        storm(ground.stack, traffic, Storm(crew, engine, draw), workload, minutes=minutes)
        crew.end()
        sandbox.faults.clear()
        _say("the storm is over; what it left behind is cleared up")
        os.environ.update(ground.variables)
        warnings.simplefilter("ignore")  # as in the processes
        settling = Settling(ground, workload)
        rested = settling.settle()
        for line in _complaints(crew.log):
            _say(line)
        return Report(
            seed=seed,
            minutes=minutes,
            sent=traffic.sent,
            restarts=engine.restarts,
            rested=rested,
            crew=crew.counts,
            told=crew.told(),
            settling=settling.done,
            facts=Observer(ground.stack).facts(workload),
            rows=settling.rows(),
            ledger=sandbox.ledger,
        )


@contextmanager
def _open_bank(stack: LocalStack) -> Iterator[None]:
    """Payments that take their time are decided while this lasts."""
    closes = threading.Event()
    bank = threading.Thread(target=Bank(stack).run, args=(closes,))
    bank.start()
    try:
        yield
    finally:
        closes.set()
        bank.join()


def _complaints(log: Path) -> Iterator[str]:
    """What processes said before they died of something else than a kill."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if not line.startswith("{")]
    if said:
        yield f"the processes also said {len(said)} lines, the last of them:"
        yield from said[-15:]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run it and print the report; 1 if the promise was broken."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="how long the storm lasts")
    parser.add_argument("--jobs", type=int, default=2000, help="how many jobs, roughly")
    parser.add_argument("--seed", type=int, default=1, help="draws the jobs and the storm")
    report = soak(**vars(parser.parse_args()))
    for line in report.lines():
        _say(line)
    return 1 if report.wrongs else 0


if __name__ == "__main__":
    sys.exit(main())
