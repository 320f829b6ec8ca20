"""The figures of docs/costs.md that have a goal."""

from tests.bench import cost_model as dollars
from tests.bench.cost_model import bill_total
from tests.bench.cost_page import CostMeasurements
from tests.bench.figures import CostFigures, CostLine


def cost_figures(m: CostMeasurements) -> CostFigures:
    smallest, charge, receipt = (
        m.counts.job(name) for name in ("smallest keyed", "payment.charge", "receipt.send")
    )
    return CostFigures(
        write_units={job.name: job.write_units for job in m.counts.jobs},
        row_bytes={job.name: job.max_row_bytes for job in m.counts.jobs},
        smallest=bill_total(m.bill(smallest)),
        powertools=bill_total(dollars.powertools_bill()),
        order=bill_total((*m.bill(charge), *m.bill(receipt))),
        unknown=bill_total(dollars.resolution_bill(charge, m.inventory)),
        idle_month=bill_total(dollars.idle_month_bill(m.counts, m.inventory)),
        s3_on_the_claim_path=smallest.run.requests.get("archive.find", 0),
        s3_puts=smallest.requests["archive.keep"] + dollars.history_puts(smallest, m.inventory),
    )


def compare_smallest_job(m: CostMeasurements) -> tuple[CostLine, ...]:
    return dollars.compare_bills(m.bill(m.counts.job("smallest keyed")), dollars.powertools_bill())
