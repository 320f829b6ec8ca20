"""`make docs` counts what jobs consume, and writes docs/costs.md and docs/scale.md."""

from pathlib import Path

from tests.bench import cost_page, log_bytes, scale_page
from tests.bench.cost_page import CostMeasurements
from tests.bench.counting import count_usage
from tests.bench.inventory import Inventory
from tests.bench.shipped_jobs import samples
from tests.support import engines


def measure(url: str) -> CostMeasurements:
    return CostMeasurements(
        counts=count_usage(url),
        logs={sample.name: log_bytes.measure(sample) for sample in samples()},
        inventory=Inventory.from_production(),
    )


def pages(measured: CostMeasurements) -> dict[Path, str]:
    return {module.PAGE: module.render(measured) for module in (cost_page, scale_page)}


def main() -> None:
    with engines.moto() as url:
        measured = measure(url)
    for file, text in pages(measured).items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
