"""Erasures at any moment: they race claims, ends, late workers, sweeps and the archiver."""

from collections.abc import Callable, Iterable
from typing import Final

from oncely.history.erasure_log import Person
from oncely.jobs.sync_contact import SyncContact
from oncely.testing import FinalState
from oncely.testing.scenario import RestoreMode, Scenario
from oncely.testing.world import personal_data_left
from tests.faults.expectations import KEY
from tests.faults.gone_scenarios import CrmModels, event
from tests.faults.providers import DECLINED, NewStripe, VanishingHubSpot, stripe

CUSTOMER: Final = "cus_anna"
ANNA: Final = Person(customer_id=CUSTOMER, records=(("hubspot", "1"),))
MARKS: Final = (CUSTOMER, "Anna", "anna@example.org", "Elm Street")
_PROPERTIES: Final = {
    "firstname": "Anna",
    "email": "anna@example.org",
    "address": "1 Elm Street",
}


def check_nothing_left(ended: FinalState) -> Iterable[str]:
    return personal_data_left(ended, *MARKS)


def check_charge_erased(ended: FinalState) -> Iterable[str]:
    yield from check_nothing_left(ended)
    row = ended.job(KEY)
    if row is not None and row.status.is_finished and row.provider_ref is None:
        yield "the reference of the charge is gone"


def erasure_scenarios(
    charging: Callable[..., Scenario],
    seed_order: Callable[..., None],
    seeded: CrmModels,
) -> tuple[Scenario, ...]:
    # She is erased at the source first, just after a worker has fetched her contact.
    contact = Scenario(
        name="sync.contact/erased",
        contracts=(SyncContact,),
        message=event("e", record={"id": "1", "properties": {**_PROPERTIES}}),
        providers=lambda options: seeded(
            options, lambda crm: crm.add(**_PROPERTIES), VanishingHubSpot
        ),
        erases=ANNA,
        # The record is erased, so what is left does not tell whether it was imported.
        count_effects=lambda _: 1,
        check=check_nothing_left,
        duplicate_messages=1,
        fixed_prefix="w1:jobs.transact_write_items>erase",
    )

    def erased_charge(name: str, payments: NewStripe, **more: object) -> Scenario:
        return charging(
            name,
            payments,
            seed_rows=lambda rows: seed_order(rows, customer_id=CUSTOMER),
            erases=ANNA,
            check=check_charge_erased,
            duplicate_messages=1,
            **more,
        )

    return (
        contact,
        erased_charge("erased", stripe()),
        erased_charge("erased-with-receipt", stripe(), receipts=True),
        erased_charge("erased-declined", stripe(acts_as=DECLINED)),
        # The late worker reports to a row that a sweep has ended and that was erased then.
        erased_charge("erased-late", stripe(), fixed_prefix="w1:jobs.transact_write_items>sweep"),
        # An archiver has read the log, and writes when the tables are erased.
        erased_charge("erased-archiving", stripe(), fixed_prefix="h1:s3.put_object>erase"),
        erased_charge("erased-restored", stripe(), restore=RestoreMode.LAGGING),
    )
