"""`make bench`: measures everything, and writes docs/benchmarks.*, costs.md and scale.md."""

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from oncely_local.engine import Engine, start_engine
from tests.bench import (
    cost_pages,
    gate_overhead,
    imports,
    measurements,
    outage_recovery,
    recovery,
)
from tests.bench.candidates import create_candidates
from tests.bench.figures import PAGE, PLOT, RAW, Figures
from tests.bench.goals import goal_rows
from tests.bench.page import render
from tests.bench.plot import draw
from tests.support import engines


def measure(engine: Engine) -> Figures:
    machine = (
        f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}, "
        f"load average {os.getloadavg()[0]:.0f} at the start"
    )
    with create_candidates(engine) as (oncely, one_by_one, powertools):
        imported = imports.measure(os.environ)
        _say("imports")
        calls = measurements.count_dynamodb_calls(oncely)
        powertools_calls = measurements.count_dynamodb_calls(powertools)
        cpu_one_by_one, powertools_cpu = measurements.measure_cpu(one_by_one, powertools)
        over_powertools = measurements.cpu_ratio(one_by_one, powertools)
        _say("calls and CPU")
        batch, powertools_batch, bare_batch = measurements.measure_batches(oncely, powertools)
        _say("batches")
        with engines.moto() as url:
            measured = cost_pages.measure(url)
        _say("costs")
        finds = measurements.measure_sweeps(engine.url)
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
            latency=measurements.LATENCY,
            batch=batch,
            powertools_batch=powertools_batch,
            bare_batch=bare_batch,
            finds=finds,
            recoveries=recovery.measure(),
            shipped=measurements.measure_packages(),
            prices=measured.comparison(),
            costs=measured.figures(),
            **measure_gate(),
        )


def measure_gate() -> dict[str, Any]:
    """Run and print both parts, which take some minutes."""
    found = {"gates": gate_overhead.measure_all(), "outages": outage_recovery.measure_both()}
    for one in (*found["gates"], *found["outages"]):
        _say(str(one))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("part", nargs="?", choices=["gate"], help="measure only this part again")
    if parser.parse_args().part:
        figures = Figures.read(**measure_gate())
    else:
        with (
            tempfile.TemporaryDirectory() as folder,
            start_engine(Path(folder) / "engine.log") as engine,
        ):
            figures = measure(engine)
        cost_pages.main()
    RAW.write_text(figures.as_json(), encoding="utf-8")
    PAGE.write_text(render(figures), encoding="utf-8")
    PLOT.write_text(draw(figures), encoding="utf-8")
    for row in goal_rows(figures):
        _say(f"{'met   ' if row.is_met else 'MISSED'} {row.what}: {row.oncely} (goal {row.goal})")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
