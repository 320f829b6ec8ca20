"""What must be true of our rows and of the providers at the end of a schedule, by job."""

from collections.abc import Iterator
from typing import Any, Final

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.jobs.payment_providers import PAYMENT_PROVIDERS
from oncely.providers.hubspot.crm import DEFAULT_VERSION_PROPERTY
from oncely.providers.hubspot.sandbox.api import HubSpotSandbox
from oncely.providers.hubspot.sandbox.model import Contact
from oncely.testing import FinalState
from oncely.testing.sandbox import EffectState

ORDER: Final = {"order_id": "18452"}
KEY: Final = JobKey("payment.charge:order_18452")
CONTACT: Final = {"record_id": "hubspot#1"}
PUSH_KEY: Final = JobKey("sync.push:hubspot:hubspot#1:7")


def payments_in(ended: FinalState) -> Any:  # noqa: ANN401  # the model of any payment provider
    """The one payment provider of a scenario."""
    (name,) = PAYMENT_PROVIDERS.keys() & ended.providers.keys()
    return ended.providers[name]


def charges_in(ended: FinalState) -> list[str]:
    """The ids of the charges that moved money."""
    return [
        one.reference
        for one in payments_in(ended).ledger.effects()
        if one.kind == "charges" and one.state is EffectState.DONE
    ]


def check_order_matches_charges(ended: FinalState) -> Iterator[str]:
    order = ended.rows.get("orders", ORDER) or {}
    charges, job = charges_in(ended), ended.job(KEY)
    paid = order.get("status") == "paid"
    if paid and len(charges) != 1:
        yield f"the order is paid, and there are {len(charges)} charges"
    if paid and order.get("charge_id") not in charges:
        yield f"the order names charge {order.get('charge_id')}, which is not at the provider"
    if job is None or job.status is Status.NEEDS_REVIEW:
        return
    if paid is not (job.status is Status.FINISHED):
        yield f"the order is {order.get('status')}, and the job is {job.status}"
    named = (job.result or {}).get("charge_id")
    if job.status is Status.FINISHED and named not in charges:
        yield f"the job names charge {named}, the provider has {charges}"


def check_only_real_charges_end_it(ended: FinalState) -> Iterator[str]:
    """Whatever the order's row says, a finished job names a charge that the provider has."""
    job, charges = ended.job(KEY), charges_in(ended)
    named = None if job is None else (job.result or {}).get("charge_id")
    if job is not None and job.status is Status.FINISHED and named not in charges:
        yield f"the job is finished with charge {named}, the provider has {charges}"


def check_forged_row_blocks_nothing(ended: FinalState) -> Iterator[str]:
    """The message ran the job: nothing of the row that was inserted before it counts."""
    yield from check_order_matches_charges(ended)
    job = ended.job(KEY)
    if job is None or not job.was_claimed:
        yield "the forged row blocked its job"


def check_no_charge(ended: FinalState) -> Iterator[str]:
    """The row has the reference of another job's payment: Oncely must not touch it."""
    if charges := charges_in(ended):
        yield f"somebody else's payment was confirmed: {charges}"
    job = ended.job(KEY)
    if job is not None and job.status is not Status.NEEDS_REVIEW:
        yield f"the job ended as {job.status}"


def charges_by_deployment(ended: FinalState, deployment: str) -> list[str]:
    made = payments_in(ended).ledger.charges
    return [one.charge_id for one in made if one.metadata["deployment"] == deployment]


def check_charge_per_deployment(ended: FinalState) -> Iterator[str]:
    order = ended.rows.get("orders", ORDER) or {}
    ours, theirs = charges_by_deployment(ended, "dev"), charges_by_deployment(ended, "staging")
    if len(theirs) != 1:
        yield f"staging has {len(theirs)} charges"
    if order.get("status") == "paid" and order.get("charge_id") not in ours:
        yield f"the order is paid by {order.get('charge_id')}, and our charges are {ours}"


def check_resubmission_charges_once(ended: FinalState) -> Iterator[str]:
    order = ended.rows.get("orders", ORDER) or {}
    charges, second = charges_in(ended), ended.job(JobKey(f"{KEY}:2"))
    if second is None or second.status is Status.NEEDS_REVIEW:
        paid = 0
    else:
        paid = int(second.status is Status.FINISHED)
        if (order.get("status") == "paid") is not bool(paid):
            yield f"the order is {order.get('status')}, and the second attempt {second.status}"
    if len(charges) > 1 or len(charges) < paid:
        yield f"there are {len(charges)} charges, and {paid} attempts that are finished"


def contacts_in(ended: FinalState) -> tuple[Contact, ...]:
    """The contacts of HubSpot, with archived ones."""
    model: HubSpotSandbox = ended.providers["hubspot"]
    return model.ledger.contacts


def writes_in(ended: FinalState) -> int:
    """How often a push wrote a contact."""
    return sum(one.writes for one in contacts_in(ended))


def check_imported_once(ended: FinalState) -> Iterator[str]:
    for contact in (one.contact_id for one in contacts_in(ended)):
        row = ended.rows.get("records", {"record_id": f"hubspot#{contact}"})
        if row is not None and row["version"] != 1:
            yield f"contact {contact} was written {row['version']} times"


def check_pushed_version(ended: FinalState) -> Iterator[str]:
    row = ended.rows.get("records", CONTACT) or {}
    at = [one.properties.get(DEFAULT_VERSION_PROPERTY) for one in contacts_in(ended)]
    if row.get("pushed_version") is not None and at != [str(row["pushed_version"])]:
        yield f"our row says version {row['pushed_version']} was pushed, the CRM has {at}"


def check_single_contact(ended: FinalState) -> Iterator[str]:
    job = ended.job(PUSH_KEY)
    standing = {one.contact_id: one for one in contacts_in(ended) if not one.archived}
    row = ended.rows.get("records", CONTACT) or {}
    if len(standing) > 1:
        yield f"there are {len(standing)} contacts for one record: {sorted(standing)}"
    written = [one.contact_id for one in contacts_in(ended) if one.writes]
    ids = [standing[one].properties.get("oncely_id") for one in written]
    if ids not in ([], [CONTACT["record_id"]]):
        yield f"the contacts that were written carry {ids}"
    if row.get("pushed_version") is not None and [row.get("crm_id")] != written:
        yield f"our row names contact {row.get('crm_id')}, the writes went to {written}"
    if job is not None and "timeouts in a row" in (job.last_error or ""):
        yield f"blind writes: {job.last_error}"


def check_limit_not_counted_as_age(ended: FinalState) -> Iterator[str]:
    yield from check_pushed_version(ended)
    job = ended.job(PUSH_KEY)
    if job is not None and "older than" in (job.last_error or ""):
        yield f"the wait counted as age: {job.last_error}"


def check_contact_unchanged(ended: FinalState) -> Iterator[str]:
    """The contact of another record: nothing is written, and the operator has its id."""
    job = ended.job(PUSH_KEY)
    (contact,) = contacts_in(ended)
    if contact.properties["oncely_id"] != "shop#7" or contact.writes:
        yield f"the contact of shop#7 was written: {contact.properties}"
    if job is not None and job.status is not Status.NEEDS_REVIEW:
        yield f"the job is {job.status}, not with an operator"
    if job is not None and "shop#7" not in (job.last_error or ""):
        yield f"the operator reads: {job.last_error}"


def check_newest_version_pushed(ended: FinalState) -> Iterator[str]:
    row = ended.rows.get("records", CONTACT) or {}
    jobs = [ended.job(JobKey(f"sync.push:hubspot:hubspot#1:{number}")) for number in (7, 8)]
    if any(job is not None and job.status is Status.NEEDS_REVIEW for job in jobs):
        return
    at = [one.properties.get(DEFAULT_VERSION_PROPERTY) for one in contacts_in(ended)]
    if at != [str(row["version"])] or str(row.get("pushed_version")) != str(row["version"]):
        yield f"our record is at version {row['version']}, the CRM has {at}: {row}"


def count_complete_imports(ended: FinalState) -> int:
    contacts, rows = contacts_in(ended), ended.rows
    keys = ({"record_id": f"hubspot#{one.contact_id}"} for one in contacts)
    return int(all(rows.get("records", key) for key in keys))
