"""Contacts that leave the CRM, or return, while their other events are processed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from oncely.core.effect_outcomes import Json
from oncely.core.keys import JobKey
from oncely.core.text import format_time
from oncely.jobs.sync_contact import SyncContact
from oncely.jobs.sync_push import SyncPush
from oncely.providers.hubspot.sandbox.api import HubSpotSandbox
from oncely.providers.hubspot.sandbox.model import HubSpotContacts
from oncely.testing import FinalState
from oncely.testing.rows import BusinessRows
from oncely.testing.sandbox import ProviderSandbox, SandboxOptions
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import START
from tests.faults.expectations import CONTACT, PUSH_KEY, contacts_in, writes_in
from tests.faults.providers import ReturningHubSpot, VanishingHubSpot

EARLIER: Final = START - timedelta(hours=1)
CrmModels = Callable[
    [SandboxOptions, Callable[[HubSpotContacts], object], type[HubSpotSandbox]],
    Mapping[str, ProviderSandbox],
]


def event(name: str, **more: Json) -> dict[str, Json]:
    source = {"source": "hubspot", "source_id": "1", "event_id": name}
    return {"job": "sync.contact", "v": 1, **source, **more}


OLD_RECORD: Final[dict[str, Json]] = {
    "id": "1",
    "updatedAt": format_time(EARLIER),
    "properties": {"email": "1@example.com"},
}
FORGED_RECORD: Final[dict[str, Json]] = {
    "id": "1",
    "updatedAt": format_time(START + timedelta(seconds=30)),
    "properties": {"email": "forged@example.com"},
}
PUSH: Final = {"job": "sync.push", "v": 1, "target": "hubspot", **CONTACT, "version": 7}


def seed_stored(rows: BusinessRows, version: int = 1) -> None:
    source = {"source": "hubspot", "source_id": "1", "source_updated_at": format_time(EARLIER)}
    data = {"record": OLD_RECORD, "checksum": "of the old record", "gone": False}
    rows.put("records", CONTACT, {**source, **data, "version": version, "imported_version": 1})


def fetch_again(_: BusinessRows) -> Iterable[Mapping[str, object]]:
    return [event("f")]


def forge_record_and_push(_: BusinessRows) -> Iterable[Mapping[str, object]]:
    pushes = ({**PUSH, "version": version} for version in (1, 2))
    return [event("f", record=FORGED_RECORD), *pushes]


def import_results(ended: FinalState) -> set[object]:
    jobs = (ended.job(JobKey(f"sync.contact:hubspot:1:{name}")) for name in ("e", "f"))
    return {(job.result or {}).get("result") for job in jobs if job and job.status.is_finished}


def stored_row(ended: FinalState) -> Mapping[str, object]:
    return ended.rows.get("records", CONTACT) or {}


def is_handled(ended: FinalState) -> int:
    return int(bool(stored_row(ended)))


def check_stays_gone(ended: FinalState) -> Iterator[str]:
    """Once it is gone, the CRM never has it again."""
    row = stored_row(ended)
    if "gone" in import_results(ended) and ("record" in row or not row.get("expires_at")):
        yield "the contact is gone, and its record is stored"


def check_stays_back(ended: FinalState) -> Iterator[str]:
    """Once the CRM has it again, it is never gone."""
    row = stored_row(ended)
    if import_results(ended) & {"updated", "unchanged"} and ("record" not in row or row["gone"]):
        yield "the contact is back, and its record is removed"
    if "record" in row and "expires_at" in row:
        yield "the contact is back, and its record expires"


def check_not_overwritten(ended: FinalState) -> Iterator[str]:
    """Nobody changed the record, so the contact stays as HubSpot has it."""
    if "forged" in repr(stored_row(ended)):
        yield "a message replaced the record"
    if writes_in(ended):
        yield "a message overwrote the contact"


def check_not_created_again(ended: FinalState) -> Iterator[str]:
    push = ended.job(PUSH_KEY)
    if any(not one.archived for one in contacts_in(ended)):
        yield "a deleted contact was created again"
    if push and push.status.is_finished and "record" in stored_row(ended):
        yield "the contact is gone, and its record is stored"


def count_ended_push(ended: FinalState) -> int:
    push = ended.job(PUSH_KEY)
    gone = push is not None and bool((push.result or {}).get("gone"))
    return int(gone) + writes_in(ended)


def gone_scenarios(seeded: CrmModels) -> tuple[Scenario, ...]:
    def contact_scenario(
        name: str,
        crm: type[HubSpotSandbox],
        edit: Callable[[BusinessRows], Iterable[Mapping[str, object]]],
        check: Callable[[FinalState], Iterable[str]],
        *,
        is_stored: bool = False,
    ) -> Scenario:
        return Scenario(
            name=f"sync.contact/{name}",
            contracts=(SyncContact, SyncPush),
            message=event("e"),
            providers=lambda options: seeded(options, lambda one: one.add_contacts(1), crm),
            count_effects=is_handled,
            seed_rows=seed_stored if is_stored else lambda _: None,
            edit=edit,
            check=check,
            duplicate_messages=1,  # the other event races it
        )

    return (
        contact_scenario("vanishes", VanishingHubSpot, fetch_again, check_stays_gone),
        contact_scenario(
            "forged", HubSpotSandbox, forge_record_and_push, check_not_overwritten, is_stored=True
        ),
        contact_scenario(
            "returns", ReturningHubSpot, fetch_again, check_stays_back, is_stored=True
        ),
        Scenario(
            name="sync.push/gone",
            contracts=(SyncPush, SyncContact),
            message=PUSH,
            providers=lambda options: seeded(
                options, lambda one: one.archive(one.add(email="1@example.com")), HubSpotSandbox
            ),
            count_effects=count_ended_push,
            seed_rows=lambda rows: seed_stored(rows, version=7),
            check=check_not_created_again,
        ),
    )
