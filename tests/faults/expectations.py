"""What must be true of our rows and of the providers at the end of a schedule, by job."""

from collections.abc import Iterator
from typing import Any, Final

from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.jobs.payment_providers import PAYMENT_PROVIDERS
from oncely.providers.interfaces import VERSION_PROPERTY
from oncely.testing import FinalState

ORDER: Final = {"order_id": "18452"}
KEY: Final = JobKey("payment.charge:order_18452")
CONTACT: Final = {"record_id": "hubspot#1"}
PUSH_KEY: Final = JobKey("sync.push:hubspot:hubspot#1:7")


def payments_in(ended: FinalState) -> Any:  # noqa: ANN401  # the fake of any payment provider
    """The one payment provider of a scenario."""
    (name,) = PAYMENT_PROVIDERS.keys() & ended.providers.keys()
    return ended.providers[name]


def check_order_matches_charges(ended: FinalState) -> Iterator[str]:
    order = ended.store.business_rows.get("orders", ORDER) or {}
    charges, job = payments_in(ended).charges, ended.job(KEY)
    paid = order.get("status") == "paid"
    if paid and len(charges) != 1:
        yield f"the order is paid, and there are {len(charges)} charges"
    if paid and order.get("charge_id") not in {f"ch_{ref}" for ref in charges}:
        yield f"the order names charge {order.get('charge_id')}, which is not at the provider"
    if job is None or job.status is Status.NEEDS_REVIEW:
        return
    if paid is not (job.status is Status.FINISHED):
        yield f"the order is {order.get('status')}, and the job is {job.status}"
    if job.status is Status.FINISHED:
        named = ((job.result or {}).get("charge_id"), job.provider_ref)
        if named not in {(f"ch_{ref}", ref) for ref in charges}:
            yield f"the job names charge {named[0]} of {named[1]}, the provider has {charges}"


def check_forged_row_blocks_nothing(ended: FinalState) -> Iterator[str]:
    """The message ran the job: nothing of the row that was inserted before it counts."""
    yield from check_order_matches_charges(ended)
    job = ended.job(KEY)
    if job is None or not job.was_claimed:
        yield "the forged row blocked its job"


def check_no_charge(ended: FinalState) -> Iterator[str]:
    """The row has the reference of another job's payment: Oncely must not touch it."""
    if charges := payments_in(ended).charges:
        yield f"somebody else's payment was confirmed: {charges}"
    job = ended.job(KEY)
    if job is not None and job.status is not Status.NEEDS_REVIEW:
        yield f"the job ended as {job.status}"


def charges_by_deployment(ended: FinalState, deployment: str) -> list[str]:
    payments = payments_in(ended)
    return [
        ref for ref in payments.charges if payments.intents[ref].payment.deployment == deployment
    ]


def check_charge_per_deployment(ended: FinalState) -> Iterator[str]:
    order = ended.store.business_rows.get("orders", ORDER) or {}
    ours, theirs = charges_by_deployment(ended, "dev"), charges_by_deployment(ended, "staging")
    if len(theirs) != 1:
        yield f"staging has {len(theirs)} charges"
    if order.get("status") == "paid" and order.get("charge_id") not in {f"ch_{r}" for r in ours}:
        yield f"the order is paid by {order.get('charge_id')}, and our charges are {ours}"


def check_resubmission_charges_once(ended: FinalState) -> Iterator[str]:
    order = ended.store.business_rows.get("orders", ORDER) or {}
    charges, second = payments_in(ended).charges, ended.job(JobKey(f"{KEY}:2"))
    if second is None or second.status is Status.NEEDS_REVIEW:
        paid = 0
    else:
        paid = int(second.status is Status.FINISHED)
        if (order.get("status") == "paid") is not bool(paid):
            yield f"the order is {order.get('status')}, and the second attempt {second.status}"
    if len(charges) > 1 or len(charges) < paid:
        yield f"there are {len(charges)} charges, and {paid} attempts that are finished"


def check_imported_once(ended: FinalState) -> Iterator[str]:
    for contact in ended.providers["hubspot"].contacts:
        row = ended.store.business_rows.get("records", {"record_id": f"hubspot#{contact}"})
        if row is not None and row["version"] != 1:
            yield f"contact {contact} was written {row['version']} times"


def check_pushed_version(ended: FinalState) -> Iterator[str]:
    row = ended.store.business_rows.get("records", CONTACT) or {}
    held = [one.body["properties"] for one in ended.providers["hubspot"].contacts.values()]
    at = [one.get(VERSION_PROPERTY) for one in held]
    if row.get("pushed_version") is not None and at != [str(row["pushed_version"])]:
        yield f"our row says version {row['pushed_version']} was pushed, the CRM has {at}"


def check_single_contact(ended: FinalState) -> Iterator[str]:
    crm, job = ended.providers["hubspot"], ended.job(PUSH_KEY)
    standing = {one.record_id: one for one in crm.contacts.values() if not one.archived}
    row = ended.store.business_rows.get("records", CONTACT) or {}
    if len(standing) > 1:
        yield f"there are {len(standing)} contacts for one record: {sorted(standing)}"
    written = [one for one in crm.writes if crm.writes[one]]
    ids = [standing[one].body["properties"].get("oncely_id") for one in written]
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
    crm, job = ended.providers["hubspot"], ended.job(PUSH_KEY)
    (contact,) = crm.contacts.values()
    if contact.body["properties"]["oncely_id"] != "shop#7" or crm.writes.total():
        yield f"the contact of shop#7 was written: {contact.body['properties']}"
    if job is not None and job.status is not Status.NEEDS_REVIEW:
        yield f"the job is {job.status}, not with an operator"
    if job is not None and "shop#7" not in (job.last_error or ""):
        yield f"the operator reads: {job.last_error}"


def check_newest_version_pushed(ended: FinalState) -> Iterator[str]:
    row = ended.store.business_rows.get("records", CONTACT) or {}
    jobs = [ended.job(JobKey(f"sync.push:hubspot:hubspot#1:{number}")) for number in (7, 8)]
    if any(job is not None and job.status is Status.NEEDS_REVIEW for job in jobs):
        return
    held = [one.body["properties"] for one in ended.providers["hubspot"].contacts.values()]
    at = [one.get(VERSION_PROPERTY) for one in held]
    if at != [str(row["version"])] or str(row.get("pushed_version")) != str(row["version"]):
        yield f"our record is at version {row['version']}, the CRM has {at}: {row}"


def count_complete_imports(ended: FinalState) -> int:
    contacts = ended.providers["hubspot"].contacts
    rows = ended.store.business_rows
    return int(all(rows.get("records", {"record_id": f"hubspot#{one}"}) for one in contacts))
