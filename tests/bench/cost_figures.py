"""The figures of docs/costs.md that have a goal."""

from tests.bench import dollars
from tests.bench.cost_page import Measured
from tests.bench.dollars import together
from tests.bench.figures import Costs, Price


def costs(m: Measured) -> Costs:
    """What `make bench` holds against its goals."""
    smallest, charge, receipt = (
        m.counts.job(name) for name in ("smallest keyed", "payment.charge", "receipt.send")
    )
    return Costs(
        write_units={job.name: job.write_units for job in m.counts.jobs},
        row_bytes={job.name: job.largest_bytes for job in m.counts.jobs},
        smallest=together(m.bill(smallest)),
        powertools=together(dollars.powertools()),
        order=together((*m.bill(charge), *m.bill(receipt))),
        unknown=together(dollars.resolved(charge, m.inventory)),
        idle_month=together(dollars.idle_month(m.counts, m.inventory)),
        s3_on_the_claim_path=smallest.run.requests.get("archive.find", 0),
        s3_puts=smallest.requests["archive.keep"] + dollars.history_puts(smallest, m.inventory),
    )


def smallest_beside_powertools(m: Measured) -> tuple[Price, ...]:
    """The smallest job's bill, and that of the same job on Powertools."""
    return dollars.beside(m.bill(m.counts.job("smallest keyed")), dollars.powertools())
