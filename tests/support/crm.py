"""HubSpot for tests: the shipped client over the model, in this process."""

from collections import Counter, deque
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Final

from oncely.core.effect_outcomes import Anomalous, EffectOutcome, LookupFailed, NotSent
from oncely.core.schedule import Clock
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.hubspot.crm import DEFAULT_ID_PROPERTY, DEFAULT_PROPERTIES, HubSpotCrm
from oncely.providers.hubspot.responses import parse_record
from oncely.providers.hubspot.sandbox.api import HubSpotSandbox
from oncely.providers.hubspot.sandbox.model import HubSpotRules, contact_body
from oncely.providers.interfaces import CrmConflict, CrmPage, CrmRecord, RecordNotFound
from oncely.testing.in_process import InProcessSandbox, base_url
from oncely.testing.sandbox import FaultKind, SandboxOptions
from tests.support.fakes import FakeClock
from tests.support.provider_fault import ProviderFault

SANDBOX_FAULTS: Final = {
    ProviderFault.TIMEOUT_BEFORE: FaultKind.DROP_BEFORE,
    ProviderFault.TIMEOUT_AFTER: FaultKind.ACCEPT_THEN_DROP,
    ProviderFault.UNAUTHORIZED: FaultKind.UNAUTHORIZED,
}
PROPERTIES: Final = (*DEFAULT_PROPERTIES, "address", "phone")


class InProcessCrm:
    """The shipped client of HubSpot, with what a test does as a user, and what happened there."""

    def __init__(self, clock: Clock | None = None, id_property: str = DEFAULT_ID_PROPERTY) -> None:
        self.clock: Clock = clock or FakeClock()
        self.id_property = id_property
        options = SandboxOptions(clock=self._now)
        self.sandbox = InProcessSandbox([HUBSPOT], options=options)
        model = self.sandbox.providers[HUBSPOT.name]
        assert isinstance(model, HubSpotSandbox)
        self.model = model
        self.calls: list[tuple[str, str]] = []  # step, id
        self._faults: dict[str, deque[ProviderFault | NotSent]] = {}  # by step
        users = model.contacts
        self.add, self.add_contacts, self.update = users.add, users.add_contacts, users.update
        self.archive, self.restore = users.archive, users.restore

    @cached_property
    def client(self) -> HubSpotCrm:
        return HubSpotCrm.from_token(
            self.model.api_key,
            api_base=base_url(HUBSPOT.name),
            properties=PROPERTIES,
            id_property=self.id_property,
            network=self.sandbox.network,
        )

    @property
    def rules(self) -> HubSpotRules:
        return self.model.rules

    @property
    def contacts(self) -> Mapping[str, CrmRecord]:
        """The contacts that are not archived, with all of their properties."""
        found = {}
        for one in self.model.ledger.contacts:
            if not one.archived:
                names = dict.fromkeys((*PROPERTIES, *one.properties))
                found[one.contact_id] = parse_record(contact_body(one, tuple(names)))
        return MappingProxyType(found)

    @property
    def writes(self) -> Counter[str]:
        """Completed writes through the API, by contact."""
        written = Counter({one.contact_id: one.writes for one in self.model.ledger.contacts})
        return +written

    def fail_next(self, step: str, *faults: ProviderFault | NotSent) -> None:
        """Let the next calls of a step fail; a NotSent stands for a limited rate."""
        self._faults.setdefault(step, deque()).extend(faults)

    def get_contact(self, record_id: str) -> CrmRecord | RecordNotFound | NotSent:
        self._begin("get_contact", record_id)
        return self.client.get_contact(record_id)

    def list_contacts(self, *, after: str | None) -> CrmPage | NotSent:
        self._begin("list_contacts", after or "")
        return self.client.list_contacts(after=after)

    def list_changed(self, *, since: datetime, after: str | None) -> CrmPage | NotSent:
        self._begin("list_changed", after or "")
        return self.client.list_changed(since=since, after=after)

    def upsert_contact(
        self,
        external_id: str,
        properties: Mapping[str, str],
        *,
        version: int | None = None,
        crm_id: str | None = None,
    ) -> EffectOutcome | CrmConflict | RecordNotFound:
        self._begin("upsert_contact", external_id)
        return self.client.upsert_contact(external_id, properties, version=version, crm_id=crm_id)

    def find_by_external_id(
        self, external_id: str, *, crm_id: str | None = None
    ) -> CrmRecord | RecordNotFound | LookupFailed | Anomalous:
        self._begin("find_by_external_id", crm_id or external_id)
        return self.client.find_by_external_id(external_id, crm_id=crm_id)

    def _now(self) -> datetime:
        return self.clock.now()  # a test may set another clock

    def _begin(self, step: str, about: str) -> None:
        """Record the call, and let the next fault of the step hit its one request."""
        self.calls.append((step, about))
        self.sandbox.faults.clear()
        if waiting := self._faults.get(step):
            match waiting.popleft():
                case NotSent(retry_after=delay):
                    seconds = None if delay is None else delay.total_seconds()
                    self.sandbox.faults.add(FaultKind.RATE_LIMIT, seconds=seconds)
                case fault:
                    self.sandbox.faults.add(SANDBOX_FAULTS[fault])
