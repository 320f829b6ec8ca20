"""`make demo`: hundreds of jobs through the whole stack, with faults injected everywhere."""

import contextlib
import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.live import Live

from oncely.cli.errors import CommandError
from oncely.core.lifecycle import UNRESOLVED, Event, Status
from oncely_cdk.guardrails import lease_seconds
from oncely_local import chaos
from oncely_local.account import LocalAccount
from oncely_local.demo_report import DemoReport, DemoSnapshot, render_line, render_tables
from oncely_local.local import run_until_interrupted
from oncely_local.logs import LogCounts, LogStream, count_timeouts
from oncely_local.observer import LedgerTotals, Observer
from oncely_local.processes import memory_usage
from oncely_local.project import local_project
from oncely_local.redeploy import advertised
from oncely_local.sample_data import create_sample_users
from oncely_local.stack import LocalStack, interrupt_on_signals, running_stack
from oncely_local.traffic import Traffic
from oncely_local.verdict import evaluate
from oncely_local.workload import FIRST_ORDER, Workload, generate_workload, project_workload

# Not the log of `make local`, which may run at the same time.
ENGINE_LOG: Final = Path("demo-engine.log")
_INTERRUPTED_EXIT_CODE: Final = 130
# Messages reappear shortly after the lease has expired.
_LEASE_MARGIN_SECONDS: Final = 3

# A snapshot slows the engine down, so wait this many times as long afterwards.
POLL_REST_FACTOR: Final = 9.0
MIN_POLL_SECONDS: Final = 0.5
LINE_INTERVAL_SECONDS: Final = 5.0
# How long a producer waits for a result before it resends.
RESEND_AFTER_SECONDS: Final = 25.0
# Follow-up jobs to resend per round; the next round handles others.
MAX_RESENT_JOBS: Final = 50
# The stream needs only seconds. Records that it dropped would take the reconciler minutes.
PUBLISH_TIMEOUT_SECONDS: Final = 20.0
# Longer than any lease, sweep or backoff of the demo: without progress for so long, it is stuck.
STALL_TIMEOUT_SECONDS: Final = 600.0

BackgroundTask = Callable[[threading.Event], None]


def demo(
    jobs: Annotated[int, typer.Option(min=1, help="Approximate number of jobs.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed for the messages, faults and kills.")] = 1,
    faults: Annotated[
        chaos.FaultLevel, typer.Option(help="How many faults to inject.")
    ] = chaos.FaultLevel.SOME,
    *,
    keep_running: Annotated[
        bool, typer.Option("--keep", help="Keep the stack running after the report.")
    ] = False,
    ignore_idempotency_keys: Annotated[
        bool, typer.Option("--ignore-keys", help="Make the provider ignore idempotency keys.")
    ] = False,
) -> None:
    """Run jobs under injected faults. Exits with code 1 if a guarantee was violated."""
    console = Console()
    try:
        with interrupt_on_signals(), contextlib.ExitStack() as exit_stack:
            with console.status("starting the local AWS and the provider sandbox…") as status:
                steps = running_stack(
                    lambda step: status.update(f"{step}…"),
                    log=ENGINE_LOG,
                    honors_idempotency_keys=not ignore_idempotency_keys,
                    seed=seed,
                )
                stack = exit_stack.enter_context(steps)
                run = _prepare_run(stack, jobs=jobs, seed=seed, level=faults)
            exit_stack.enter_context(advertised(stack))
            report = run.run(console)
            console.print(report.render())
            code = 0 if report.verdict.is_kept else 1
            if keep_running:
                with contextlib.suppress(KeyboardInterrupt):
                    create_sample_users(stack)
                    run_until_interrupted(console, stack, order=FIRST_ORDER)
    except KeyboardInterrupt:
        code = _INTERRUPTED_EXIT_CODE
    raise typer.Exit(code)


def _prepare_run(stack: LocalStack, *, jobs: int, seed: int, level: chaos.FaultLevel) -> "DemoRun":
    fault_plan = chaos.FAULT_PLANS[level]
    fault_plan.apply(stack.sandbox.faults, map(type, stack.sandbox.providers.values()))
    killer = chaos.WorkerKiller(stack, fault_plan.kill_intervals(seed), seed)
    if stack.project.is_clone:
        workload = generate_workload(jobs=jobs, seed=seed)
    else:
        workload = project_workload(stack.project, jobs=jobs, seed=seed)
    if not workload.jobs:
        raise CommandError(
            "The project has no messages for the demo, since each job needs business rows. Add "
            "rows and messages: docs/adopt.md says how."
        )
    queues = (*stack.project.queue_outputs.values(), "DeadLetterQueueUrl", "RejectsQueueUrl")
    shorten_visibility(stack.account, [stack.outputs[one] for one in queues])
    return DemoRun(stack, workload, killer)


def shorten_visibility(account: LocalAccount, queue_urls: Iterable[str]) -> None:
    """Redeliver the messages of killed workers soon after the lease, not after 6 timeouts."""
    project = local_project()
    timeout = project.settings.worker_timeout_seconds
    lease = lease_seconds(project.jobs, worker_timeout_seconds=timeout)
    visibility = str(int(lease) + _LEASE_MARGIN_SECONDS)
    for url in queue_urls:
        account.client("sqs").set_queue_attributes(
            QueueUrl=url, Attributes={"VisibilityTimeout": visibility}
        )


class DemoRun:
    """One run: sends the workload under faults, and waits until every job has ended."""

    def __init__(self, stack: LocalStack, workload: Workload, killer: chaos.WorkerKiller) -> None:
        self._stack = stack
        self._workload = workload
        self._killer = killer
        self._traffic = Traffic(stack, workload)
        self._sweep_trigger = chaos.SweepTrigger(stack)
        self._observer = Observer(stack)
        self._logs = LogStream(stack.account)
        self._log_counts = LogCounts()
        self._calm = threading.Event()  # set once no more workers are killed
        self._peak_memory = 0
        self._ended_counts: list[tuple[float, int]] = []
        self._quiet_since = self._resent_at = self._progressed_at = 0.0
        self._statuses: Counter[Status] = Counter()
        self._paused: list[str] = []

    def run(self, console: Console) -> DemoReport:
        self._traffic.prepare()
        decide_payments = partial(chaos.complete_pending_effects, self._stack.sandbox)
        parts = (self._traffic.run, self._sweep_trigger.run, decide_payments)
        with _run_in_threads(parts), _run_in_threads([self._killer.run], stop=self._calm):
            view = self._poll_until_done(console)
        self._log_counts.add(self._logs.poll())
        state, p90_count = self._observer.final_state(self._workload), 0.9 * view.ended
        return DemoReport(
            final_state=state,
            verdict=evaluate(state),
            log_counts=self._log_counts,
            last=view,
            timeouts=count_timeouts(self._stack.engine.log),
            p90_seconds=next((at for at, ended in self._ended_counts if ended >= p90_count), 0.0),
            peak_memory_bytes=self._peak_memory,
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
                rest = POLL_REST_FACTOR * (time.monotonic() - look_began)
                time.sleep(max(MIN_POLL_SECONDS, rest))

    def _take_snapshot(self, seconds: float) -> DemoSnapshot:
        self._paused = self._observer.paused()
        view = DemoSnapshot(
            seconds=seconds,
            phase=self._phase(),
            sent=self._traffic.sent,
            kills=self._killer.kills,
            sweeps=self._sweep_trigger.sweeps,
            memory_bytes=memory_usage(os.getpid()),  # includes the engine and its workers
            depths=self._observer.depths(),
            jobs=self._observer.jobs(),
            ledger_totals=LedgerTotals.from_sandbox(self._stack.sandbox),
        )
        self._log_counts.add(self._logs.poll())
        self._peak_memory = max(self._peak_memory, view.memory_bytes)
        self._ended_counts.append((seconds, view.ended))
        if self._traffic.done.is_set() and not view.waiting:
            # Everything was sent: stop injecting faults.
            self._calm.set()
            self._stack.sandbox.faults.deactivate()
        return view

    def _phase(self) -> str:
        if self._paused:
            return f"{', '.join(self._paused)} paused"
        return "finishing" if self._calm.is_set() else "running"

    def _is_done(self, view: DemoSnapshot) -> bool:
        if view.waiting or not self._traffic.done.is_set() or view.unresolved:
            self._quiet_since = 0.0
            return False
        now = evaluate(self._observer.final_state(self._workload))
        if now.lost or now.unresolved:
            # Maybe not lost: messages of a killed worker are invisible until their timeout.
            self._quiet_since = 0.0
            return False
        self._quiet_since = self._quiet_since or view.seconds
        behind = (*now.unpublished, *now.not_in_history)
        return not behind or view.seconds - self._quiet_since > PUBLISH_TIMEOUT_SECONDS

    def _is_stalled(self, view: DemoSnapshot) -> bool:
        if view.statuses != self._statuses or self._paused:
            self._statuses, self._progressed_at = view.statuses, view.seconds
        return view.seconds - self._progressed_at > STALL_TIMEOUT_SECONDS

    def _resend_unresolved(self, view: DemoSnapshot) -> None:
        if not self._traffic.done.is_set():
            self._resent_at = view.seconds
        if view.waiting or view.seconds - self._resent_at < RESEND_AFTER_SECONDS:
            return
        self._resent_at = view.seconds
        jobs, first = view.jobs, self._workload.jobs
        self._traffic.send(
            first[key] for key in first if key not in jobs or jobs[key].status in UNRESOLVED
        )
        # Follow-up jobs have no producer, and their next retry may be minutes away.
        ready = (key for key, job in jobs.items() if job.status.allows(Event.RESEND))
        followed = (key for key in ready if key not in first)
        self._traffic.resend(itertools.islice(followed, MAX_RESENT_JOBS))
        # Jobs whose lookup failed under faults are due again only minutes later.
        unknown = (key for key, job in jobs.items() if job.status.allows(Event.RECHECK))
        self._sweep_trigger.request_sweep(unknown)


@contextlib.contextmanager
def _run_in_threads(
    parts: Sequence[BackgroundTask], *, stop: threading.Event | None = None
) -> Iterator[None]:
    """Run tasks in threads while the block runs. Raises their exceptions at the end."""
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
    """Show a live table on a terminal, or a line every few seconds elsewhere."""
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
