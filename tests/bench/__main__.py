"""`make bench`: measures everything, and writes docs/benchmarks.*, costs.md and scale.md."""

import os
import platform
import sys
import tempfile
from pathlib import Path

from oncely_local.engine import Engine, running_engine
from tests.bench import assets, batches, cost_pages, cpu, dynamodb_calls, imports, recovery
from tests.bench import sweep_cost as finding
from tests.bench.candidates import create_candidates
from tests.bench.cost_figures import compare_smallest_job, cost_figures
from tests.bench.figures import PAGE, PLOT, RAW, Figures, write
from tests.bench.goals import goal_rows
from tests.bench.page import render
from tests.bench.plot import draw
from tests.support import engines


def measure(engine: Engine) -> Figures:
    machine = (
        f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}, "
        f"{os.getloadavg()[0]:.0f} processes wanted to run when this began"
    )
    with create_candidates(engine) as (_, oncely, one_by_one, powertools):
        imported = imports.measure(os.environ)
        _say("imports")
        calls = dynamodb_calls.count(oncely)
        powertools_calls = dynamodb_calls.count(powertools)
        cpu_one_by_one, powertools_cpu = cpu.measure((one_by_one, 1), (powertools, 1))
        over_powertools = cpu.cpu_ratio(one_by_one, powertools)
        _say("calls and CPU")
        batch, powertools_batch, bare_batch = batches.measure(oncely, powertools)
        _say("batches")
        with engines.moto() as url:
            measured = cost_pages.measure(url)
        _say("costs")
        finds = finding.measure(engine.url)
        _say("sweeps")
        return Figures(
            machine=machine,
            calls=calls,
            powertools_calls=powertools_calls,
            client=imported[imports.CLIENT],
            worker_import=imported[imports.WORKER],
            worker_ready=imported[imports.READY],
            stripe_worker_ready=imported[imports.READY_WITH_STRIPE],
            powertools_import=imported[imports.POWERTOOLS],
            cpu=cpu_one_by_one,
            powertools_cpu=powertools_cpu,
            cpu_over_powertools=over_powertools,
            latency=batches.LATENCY,
            batch=batch,
            powertools_batch=powertools_batch,
            bare_batch=bare_batch,
            finds=finds,
            recoveries=recovery.measure(),
            shipped=assets.measure(),
            prices=compare_smallest_job(measured),
            costs=cost_figures(measured),
        )


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running_engine(Path(folder) / "engine.log") as engine,
    ):
        figures = measure(engine)
    cost_pages.main()
    write(figures.as_json(), RAW)
    write(render(figures), PAGE)
    write(draw(figures), PLOT)
    for row in goal_rows(figures):
        _say(f"{'met   ' if row.is_met else 'MISSED'} {row.what}: {row.oncely} (goal {row.goal})")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
