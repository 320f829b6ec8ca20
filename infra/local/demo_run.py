"""One run of the demo: everything at once, watched until each job has come to its end."""

import contextlib
import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from rich.console import Console
from rich.live import Live

from infra.local.chaos import Bank, Killer, Sweeper
from infra.local.live import View, as_line, as_tables
from infra.local.logs import LogStream
from infra.local.observer import Observer
from infra.local.processes import memory_of
from infra.local.report import Report, Run
from infra.local.stack import LocalStack
from infra.local.tally import Tally, timeouts_in
from infra.local.traffic import Traffic
from infra.local.verdict import judge
from infra.local.workload import Workload
from oncely.domain.lifecycle import UNRESOLVED, Status

# A look at everything takes the engine's time: it gets a rest of so many times that long.
REST: Final = 9.0
SHORTEST_REST: Final = 0.5
LINE_EVERY: Final = 5.0
# A producer without an answer asks again after this many seconds, and again.
IMPATIENT_AFTER: Final = 25.0
# At once, of those that followed others; the next time, it is the turn of others.
MOST_SENT_AGAIN: Final = 50
# The stream is nearly done when the jobs are; what it missed is the reconciler's, minutes later.
PUBLISH_PATIENCE: Final = 20.0
# Longer than any lease and sweep, and back-offs are cut short: if nothing moves for so long, it is
# stuck.
STUCK_SECONDS: Final = 600.0

Part = Callable[[threading.Event], None]


class DemoRun:
    """Its parts run side by side; `play` is the whole of it."""

    def __init__(self, stack: LocalStack, workload: Workload, killer: Killer) -> None:
        self._stack = stack
        self._workload = workload
        self._killer = killer
        self._traffic = Traffic(stack, workload)
        self._sweeper = Sweeper(stack)
        self._observer = Observer(stack)
        self._logs = LogStream(stack.account)
        self._tally = Tally()
        self._calm = threading.Event()  # set when no more workers are killed
        self._peak_memory = 0
        self._ended: list[tuple[float, int]] = []
        self._quiet_since = self._asked_again = self._moved_at = 0.0
        self._statuses: Counter[Status] = Counter()

    def prepare(self) -> None:
        """Write what the jobs are about."""
        self._traffic.prepare()

    def play(self, console: Console) -> Report:
        """Send everything, wait until all of it has ended, and look at what is there."""
        parts = (self._traffic.run, self._sweeper.run, Bank(self._stack).run)
        with _side_by_side(parts), _side_by_side([self._killer.run], stop=self._calm):
            view = self._watch(console)
        self._tally.add(self._logs.new())
        facts = self._observer.facts(self._workload)
        return Report(facts, judge(facts), self._tally, view.books, self._run(view))

    def _watch(self, console: Console) -> View:
        began = time.monotonic()
        with _shown(console) as show:
            while True:
                look_began = time.monotonic()
                view = self._look(look_began - began)
                show(view)
                if self._has_settled(view) or self._is_stuck(view):
                    return view
                self._ask_again(view)
                time.sleep(max(SHORTEST_REST, REST * (time.monotonic() - look_began)))

    def _look(self, seconds: float) -> View:
        view = View(
            seconds=seconds,
            doing="waiting for the last" if self._calm.is_set() else "working",
            sent=self._traffic.sent,
            kills=self._killer.kills,
            sweeps=self._sweeper.sweeps,
            memory=self._memory(),
            depths=self._observer.depths(),
            jobs=self._observer.jobs(),
            books=self._observer.books(),
        )
        self._tally.add(self._logs.new())
        self._ended.append((seconds, view.ended))
        if self._traffic.done.is_set() and not view.waiting:
            # The storm is over: what it left behind is cleared up now.
            self._calm.set()
            self._stack.sandbox.faults.end()
        return view

    def _has_settled(self, view: View) -> bool:
        """Whether nothing is left to happen."""
        if view.waiting or not self._traffic.done.is_set() or view.unresolved:
            self._quiet_since = 0.0
            return False
        now = judge(self._observer.facts(self._workload))
        if now.lost or now.unresolved:
            # Not lost yet: a queue hides what a killed worker held, and bad messages with it.
            self._quiet_since = 0.0
            return False
        self._quiet_since = self._quiet_since or view.seconds
        behind = (*now.unpublished, *now.not_in_history)
        return not behind or view.seconds - self._quiet_since > PUBLISH_PATIENCE

    def _is_stuck(self, view: View) -> bool:
        """Whether no job has moved for longer than any of them waits."""
        if view.statuses != self._statuses:
            self._statuses, self._moved_at = view.statuses, view.seconds
        return view.seconds - self._moved_at > STUCK_SECONDS

    def _ask_again(self, view: View) -> None:
        """Send once more what has no answer yet, and ask about it, as impatient people do."""
        if not self._traffic.done.is_set():
            self._asked_again = view.seconds
        if view.waiting or view.seconds - self._asked_again < IMPATIENT_AFTER:
            return
        self._asked_again = view.seconds
        jobs, first = view.jobs, self._workload.jobs
        self._traffic.send(
            first[key] for key in first if key not in jobs or jobs[key].status in UNRESOLVED
        )
        # Nobody asked for what followed another job, and its next try may be minutes away.
        followed = (key for key in jobs if key not in first and jobs[key].status is Status.READY)
        self._traffic.send_again(itertools.islice(followed, MOST_SENT_AGAIN))
        # What nobody could be asked about in the storm is due again only minutes later.
        self._sweeper.ask_about(key for key in jobs if jobs[key].status is Status.UNKNOWN)

    def _memory(self) -> int:
        now = memory_of(os.getpid())  # the engine and its workers are below it
        self._peak_memory = max(self._peak_memory, now)
        return now

    def _run(self, view: View) -> Run:
        most = 0.9 * view.ended
        return Run(
            sent=self._traffic.sent,
            kills=self._killer.kills,
            timeouts=timeouts_in(self._stack.log),
            sweeps=self._sweeper.sweeps,
            seconds=view.seconds,
            most_ended_after=next((at for at, ended in self._ended if ended >= most), 0.0),
            peak_memory=self._peak_memory,
        )


@contextlib.contextmanager
def _side_by_side(parts: Sequence[Part], *, stop: threading.Event | None = None) -> Iterator[None]:
    """Run parts in threads while the block lasts; what one of them raised is raised at the end."""
    over = stop or threading.Event()
    with ThreadPoolExecutor(len(parts)) as pool:
        running = [pool.submit(part, over) for part in parts]
        try:
            yield
        finally:
            over.set()
        for one in running:
            one.result()


@contextlib.contextmanager
def _shown(console: Console) -> Iterator[Callable[[View], None]]:
    """A table that moves on a terminal; a line every few seconds elsewhere."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda view: live.update(as_tables(view))
        return
    last = -LINE_EVERY

    def print_now_and_then(view: View) -> None:
        nonlocal last
        if view.seconds - last >= LINE_EVERY:
            last = view.seconds
            print(as_line(view), flush=True)

    yield print_now_and_then
