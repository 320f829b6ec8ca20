"""`make docs` counts what jobs consume, and writes docs/costs.md and docs/scale.md."""

from pathlib import Path

from tests.bench import cost_page, log_bytes, scale_page
from tests.bench.cost_page import CostMeasurements
from tests.bench.counting import count_usage
from tests.bench.figures import write
from tests.bench.inventory import Inventory
from tests.bench.shipped_jobs import samples
from tests.support import engines


def measure(url: str) -> CostMeasurements:
    logs = {sample.name: log_bytes.measure(sample) for sample in samples()}
    return CostMeasurements(
        counts=count_usage(url), logs=logs, inventory=Inventory.from_production()
    )


def pages(measured: CostMeasurements) -> dict[Path, str]:
    return {
        cost_page.PAGE: cost_page.render(measured),
        scale_page.PAGE: scale_page.render(measured),
    }


def main() -> None:
    with engines.moto() as url:
        measured = measure(url)
    for file, text in pages(measured).items():
        write(text, file)


if __name__ == "__main__":
    main()
