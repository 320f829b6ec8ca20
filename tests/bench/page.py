"""Renders the pages of this folder from templates/, and docs/benchmarks.md from its figures."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.bench.figures import PAGE, CostLine, Figures
from tests.bench.goals import goal_rows
from tests.bench.outage_recovery import MAX_SECONDS

_TEMPLATES: Final = Path(__file__).parent / "templates"
# The fault explorer's table stays when the page is written again.
_EXPLORER: Final = re.compile(r"<!-- the fault explorer's table -->\n(.*?)\n<!--", re.DOTALL)


def fill_template(name: str, **values: object) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8").format(**values)


def table(head: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(
        f"| {' | '.join(line)} |".replace("  ", " ")
        for line in (head, ("---",) * len(head), *lines)
    )


def comparison(bill: Sequence[CostLine]) -> str:
    rows = [(one.what, f"{one.oncely:.2f}", f"{one.powertools:.2f}") for one in bill]
    sums = sum(one.oncely for one in bill), sum(one.powertools for one in bill)
    rows.append(("**total**", f"**{sums[0]:.2f}**", f"**{sums[1]:.2f}**"))
    return table(("what", "Oncely", "Powertools"), rows)


def render(f: Figures) -> str:
    goals = (
        (one.what, one.goal, one.oncely, one.powertools, "met" if one.is_met else "**missed**")
        for one in goal_rows(f)
    )
    explorer = _EXPLORER.search(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else None
    return fill_template(
        "benchmarks.md",
        f=f,
        goals=table(("what", "goal", "Oncely", "Powertools", ""), goals),
        latency=_milliseconds(f.latency),
        batch=_milliseconds(f.batch.seconds),
        powertools_batch=_milliseconds(f.powertools_batch.seconds),
        bare_batch=_milliseconds(f.bare_batch.seconds),
        explorer=explorer[1] if explorer else "",
        recoveries=table(
            ("the worker died", "sweeps", "the job ended"),
            ((one.died, str(one.sweeps), one.ended) for one in f.recoveries),
        ),
        gates=table(
            ("limit", "jobs offered", "write units a job", "worst second"),
            (
                (
                    f"{one.limit:g}/s",
                    f"{one.jobs_per_second:g}/s",
                    f"{one.writes_per_job:.3f}",
                    str(one.worst_second),
                )
                for one in f.gates
            ),
        ),
        outage_seconds=MAX_SECONDS,
        outages=table(
            ("", "jobs ended", "seconds", "goal", "lookups", "answered 429"),
            (
                (
                    "with the gate" if one.is_gated else "without it",
                    f"{one.finished:,} of {one.jobs:,}",
                    f"{one.seconds:.0f}",
                    f"{one.limit_seconds:.0f}",
                    f"{one.lookups:,}",
                    f"{one.refused:,} ({one.refused_share:.1%})",
                )
                for one in f.outages
            ),
        ),
        prices=comparison(f.prices),
        shipped=table(
            ("function", "code", "layers"),
            ((one.function, str(one.code), str(one.layers)) for one in f.shipped),
        ),
        oncely=sum(price.oncely for price in f.prices),
        powertools=sum(price.powertools for price in f.prices),
    )


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"
