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

from oncely.domain.lifecycle import UNRESOLVED, Status
from oncely_local.chaos import PendingPaymentResolver, SweepTrigger, WorkerKiller
from oncely_local.demo_display import DemoSnapshot, render_line, render_tables
from oncely_local.log_counts import LogCounts, count_timeouts
from oncely_local.logs import LogStream
from oncely_local.observer import Observer
from oncely_local.processes import memory_usage
from oncely_local.report import DemoReport, RunStats
from oncely_local.stack import LocalStack
from oncely_local.traffic import Traffic
from oncely_local.verdict import evaluate
from oncely_local.workload import Workload

# A look at everything takes the engine's time: it gets a rest of so many times that long.
POLL_REST_FACTOR: Final = 9.0
MIN_POLL_SECONDS: Final = 0.5
LINE_INTERVAL_SECONDS: Final = 5.0
# A producer without an answer asks again after this many seconds, and again.
RESEND_AFTER_SECONDS: Final = 25.0
# At once, of those that followed others; the next time, it is the turn of others.
MAX_RESENT_JOBS: Final = 50
# The stream is nearly done when the jobs are; what it missed is the reconciler's, minutes later.
PUBLISH_TIMEOUT_SECONDS: Final = 20.0
# Longer than any lease and sweep, and back-offs are cut short: if nothing moves for so long, it is
# stuck.
STALL_TIMEOUT_SECONDS: Final = 600.0

BackgroundTask = Callable[[threading.Event], None]


class DemoRun:
    """Its parts run side by side; `play` is the whole of it."""

    def __init__(self, stack: LocalStack, workload: Workload, killer: WorkerKiller) -> None:
        self._stack = stack
        self._workload = workload
        self._killer = killer
        self._traffic = Traffic(stack, workload)
        self._sweep_trigger = SweepTrigger(stack)
        self._observer = Observer(stack)
        self._logs = LogStream(stack.account)
        self._log_counts = LogCounts()
        self._calm = threading.Event()  # set when no more workers are killed
        self._peak_memory = 0
        self._ended_counts: list[tuple[float, int]] = []
        self._quiet_since = self._resent_at = self._progressed_at = 0.0
        self._statuses: Counter[Status] = Counter()

    def prepare(self) -> None:
        """Write what the jobs are about."""
        self._traffic.prepare()

    def run(self, console: Console) -> DemoReport:
        """Send everything, wait until all of it has ended, and look at what is there."""
        parts = (
            self._traffic.run,
            self._sweep_trigger.run,
            PendingPaymentResolver(self._stack).run,
        )
        with _run_in_threads(parts), _run_in_threads([self._killer.run], stop=self._calm):
            view = self._poll_until_done(console)
        self._log_counts.add(self._logs.poll())
        final_state = self._observer.final_state(self._workload)
        return DemoReport(
            final_state,
            evaluate(final_state),
            self._log_counts,
            view.ledger_totals,
            self._run_stats(view),
        )

    def _poll_until_done(self, console: Console) -> DemoSnapshot:
        began = time.monotonic()
        with _display(console) as show:
            while True:
                look_began = time.monotonic()
                view = self._take_snapshot(look_began - began)
                show(view)
                if self._is_done(view) or self._is_stalled(view):
                    return view
                self._resend_unresolved(view)
                time.sleep(
                    max(MIN_POLL_SECONDS, POLL_REST_FACTOR * (time.monotonic() - look_began))
                )

    def _take_snapshot(self, seconds: float) -> DemoSnapshot:
        view = DemoSnapshot(
            seconds=seconds,
            phase="waiting for the last" if self._calm.is_set() else "working",
            sent=self._traffic.sent,
            kills=self._killer.kills,
            sweeps=self._sweep_trigger.sweeps,
            memory_bytes=self._memory(),
            depths=self._observer.depths(),
            jobs=self._observer.jobs(),
            ledger_totals=self._observer.ledger_totals(),
        )
        self._log_counts.add(self._logs.poll())
        self._ended_counts.append((seconds, view.ended))
        if self._traffic.done.is_set() and not view.waiting:
            # The storm is over: what it left behind is cleared up now.
            self._calm.set()
            self._stack.sandbox.faults.deactivate()
        return view

    def _is_done(self, view: DemoSnapshot) -> bool:
        """Whether nothing is left to happen."""
        if view.waiting or not self._traffic.done.is_set() or view.unresolved:
            self._quiet_since = 0.0
            return False
        now = evaluate(self._observer.final_state(self._workload))
        if now.lost or now.unresolved:
            # Not lost yet: a queue hides what a killed worker held, and bad messages with it.
            self._quiet_since = 0.0
            return False
        self._quiet_since = self._quiet_since or view.seconds
        behind = (*now.unpublished, *now.not_in_history)
        return not behind or view.seconds - self._quiet_since > PUBLISH_TIMEOUT_SECONDS

    def _is_stalled(self, view: DemoSnapshot) -> bool:
        """Whether no job has moved for longer than any of them waits."""
        if view.statuses != self._statuses:
            self._statuses, self._progressed_at = view.statuses, view.seconds
        return view.seconds - self._progressed_at > STALL_TIMEOUT_SECONDS

    def _resend_unresolved(self, view: DemoSnapshot) -> None:
        """Send once more what has no answer yet, and ask about it, as impatient people do."""
        if not self._traffic.done.is_set():
            self._resent_at = view.seconds
        if view.waiting or view.seconds - self._resent_at < RESEND_AFTER_SECONDS:
            return
        self._resent_at = view.seconds
        jobs, first = view.jobs, self._workload.jobs
        self._traffic.send(
            first[key] for key in first if key not in jobs or jobs[key].status in UNRESOLVED
        )
        # Nobody asked for what followed another job, and its next try may be minutes away.
        followed = (key for key in jobs if key not in first and jobs[key].status is Status.READY)
        self._traffic.resend(itertools.islice(followed, MAX_RESENT_JOBS))
        # What nobody could be asked about in the storm is due again only minutes later.
        self._sweep_trigger.request_sweep(key for key in jobs if jobs[key].status is Status.UNKNOWN)

    def _memory(self) -> int:
        now = memory_usage(os.getpid())  # the engine and its workers are below it
        self._peak_memory = max(self._peak_memory, now)
        return now

    def _run_stats(self, view: DemoSnapshot) -> RunStats:
        p90_count = 0.9 * view.ended
        return RunStats(
            sent=self._traffic.sent,
            kills=self._killer.kills,
            timeouts=count_timeouts(self._stack.log),
            sweeps=self._sweep_trigger.sweeps,
            seconds=view.seconds,
            p90_seconds=next((at for at, ended in self._ended_counts if ended >= p90_count), 0.0),
            peak_memory_bytes=self._peak_memory,
        )


@contextlib.contextmanager
def _run_in_threads(
    parts: Sequence[BackgroundTask], *, stop: threading.Event | None = None
) -> Iterator[None]:
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
def _display(console: Console) -> Iterator[Callable[[DemoSnapshot], None]]:
    """A table that moves on a terminal; a line every few seconds elsewhere."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda view: live.update(render_tables(view))
        return
    last = -LINE_INTERVAL_SECONDS

    def print_now_and_then(view: DemoSnapshot) -> None:
        nonlocal last
        if view.seconds - last >= LINE_INTERVAL_SECONDS:
            last = view.seconds
            print(render_line(view), flush=True)

    yield print_now_and_then
