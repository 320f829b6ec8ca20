"""Draws docs/benchmarks.svg: the batch over time, the ratios and their goals, the sweeps."""

import math
from collections.abc import Callable, Iterator

from tests.bench.figures import BatchTime, Figures
from tests.bench.goals import BATCH, CPU_OVER_POWERTOOLS, IMPORT
from tests.bench.page import fill_template

LEFT, RIGHT = 130, 830


def draw(f: Figures) -> str:
    told = (
        f"A batch of ten takes {_ms(f.batch.seconds)} with Oncely and "
        f"{_ms(f.powertools_batch.seconds)} with Powertools. "
        f"CPU of a job over Powertools': {f.cpu_over_powertools:.2f}. "
        f"Import over a bare client: {f.worker_import.ratio:.2f} and "
        f"{f.powertools_import.ratio:.2f}. A sweep reads {f.finds[-1].read} items at any size."
    )
    drawn = "\n".join((*_batch(f), *_ratios(f), *_sweeps(f)))
    return fill_template("benchmarks.svg", told=told, drawn=drawn)


def _batch(f: Figures) -> Iterator[str]:
    end = f.powertools_batch.seconds

    def x(seconds: float) -> float:
        return LEFT + (RIGHT - 70 - LEFT) * seconds / end

    yield _text(30, 38, "Ten jobs in one batch, each waits 200 ms for its provider", "title")
    goal = x(BATCH * f.latency)
    yield _line(goal, 56, goal, 292, "goal")
    yield _text(goal + 6, 66, f"goal {1000 * BATCH * f.latency:.0f} ms", "goal")
    yield from _band(f.batch, x, top=76, css="ours", name="Oncely")
    yield from _band(f.powertools_batch, x, top=188, css="theirs", name="Powertools")
    for tick in range(int(end / 0.5) + 1):
        at = x(tick / 2)
        yield _line(at, 292, at, 298, "axis")
        yield _text(at, 314, f"{tick / 2:g} s", "small", anchor="middle")
    yield _line(LEFT, 292, RIGHT - 40, 292, "axis")


def _band(
    batch: BatchTime, x: Callable[[float], float], *, top: int, css: str, name: str
) -> Iterator[str]:
    yield _text(30, top + 52, name, "figure")
    for row, (start, stop) in enumerate(batch.bars):
        yield (
            f'<rect class="{css}" x="{x(start):.1f}" y="{top + 10 * row}" '
            f'width="{x(stop) - x(start):.1f}" height="7" rx="2"/>'
        )
    done = x(batch.seconds)
    yield _line(done, top - 4, done, top + 100, "axis")
    yield _text(done + 8, top + 52, _ms(batch.seconds), "figure")


def _ratios(f: Figures) -> Iterator[str]:
    top = 400
    most = max(f.powertools_import.ratio, f.worker_import.ratio, f.cpu_over_powertools, 1.5) + 0.1

    def x(ratio: float) -> float:
        return LEFT + 300 * (ratio - 1) / (most - 1)

    yield _text(30, 358, "CPU over Powertools' job, over a bare client", "title")
    for row, (name, ours, theirs, goal) in enumerate(
        (
            ("a job", f.cpu_over_powertools, 1.0, CPU_OVER_POWERTOOLS),
            ("importing", f.worker_import.ratio, f.powertools_import.ratio, IMPORT),
        )
    ):
        y = top + 68 * row
        yield _text(30, y + 4, name)
        yield _line(LEFT, y, x(most), y, "axis")
        yield _line(x(goal), y - 18, x(goal), y + 8, "goal")
        yield _text(x(goal), y + 38, f"goal {goal:g}", "goal", anchor="middle")
        # Labels above and below, so that two dots in one place are both readable.
        yield _dot(x(ours), y, "ours")
        yield _text(x(ours), y - 11, f"{ours:.2f}", "figure ours", anchor="middle")
        yield _dot(x(theirs), y, "theirs")
        yield _text(x(theirs), y + 21, f"{theirs:.2f}", "figure theirs", anchor="middle")
    yield _text(LEFT, top + 136, "1.0", "small", anchor="middle")
    yield _line(LEFT, top - 18, LEFT, top + 120, "axis")
    yield _dot(36, top + 160, "ours")
    yield _text(48, top + 164, "Oncely", "small")
    yield _dot(116, top + 160, "theirs")
    yield _text(128, top + 164, "Powertools 3.37", "small")


def _sweeps(f: Figures) -> Iterator[str]:
    left, bottom, width, height = 540, 540, 270, 140

    def place(rows: float, read: float) -> tuple[float, float]:
        return (
            left + width * (math.log10(rows) - 3) / 2,
            bottom - height * (math.log10(read) - 0.5) / 4.5,
        )

    yield _text(500, 358, "Items a sweep reads to find ten due jobs", "title")
    yield _line(left, bottom, left + width, bottom, "axis")
    corners = [place(found.rows, found.rows) for found in f.finds]
    yield f'<polyline class="scan" points="{_points(corners)}"/>'
    yield _text(corners[1][0] - 8, corners[1][1] - 8, "all rows", "small", anchor="end")
    read = [place(found.rows, found.read) for found in f.finds]
    yield f'<polyline class="path" points="{_points(read)}"/>'
    for found, (x, y) in zip(f.finds, read, strict=True):
        yield _dot(x, y, "ours")
        yield _text(x, y - 11, str(found.read), "figure ours", anchor="middle")
        yield _text(x, bottom + 18, f"{found.rows // 1000} k rows", "small", anchor="middle")


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"


def _points(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _dot(x: float, y: float, css: str) -> str:
    return f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/>'


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, css: str = "", *, anchor: str = "start") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'
