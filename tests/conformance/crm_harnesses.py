"""The CRMs that the contract suites are run on, each with its truth and a way to make it fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from oncely.domain.effect_outcomes import NotSent
from oncely.providers.hubspot.crm import HubSpotCrm
from oncely.providers.hubspot.fake import FakeCrm
from oncely.providers.hubspot.paths import CONTACTS
from oncely.providers.hubspot.sandbox.contacts import HubSpotContacts
from oncely.providers.sandbox import ProviderSandbox
from oncely.testing.provider_fault import ProviderFault
from tests.conformance.payment_harnesses import SANDBOX_FAULTS
from tests.support.fakes import FakeClock

CRMS = ("fake", "hubspot")
ENDPOINTS = {
    "get_contact": ("GET", f"{CONTACTS}/*"),
    "list_contacts": ("GET", CONTACTS),
    "list_changed": ("POST", "*/search"),
    "upsert_contact": ("P*", f"{CONTACTS}/*"),
    "find_by_external_id": ("GET", f"{CONTACTS}/*"),
}


@dataclass
class FakeCrmHarness:
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.crm: FakeCrm = FakeCrm(clock=self.clock)
        self.users: FakeCrm = self.crm

    def writes(self) -> list[int]:
        return [self.crm.writes[one] for one in self.crm.contacts]

    def fail_next(self, step: str, fault: ProviderFault) -> None:
        self.crm.fail_next(step, fault)

    def limit_rate(self, step: str, *, seconds: int) -> None:
        self.crm.fail_next(step, NotSent("429", timedelta(seconds=seconds)))

    def set_reports_conflicting_property(self, named: bool) -> None:  # noqa: FBT001  # a switch
        self.crm.reports_conflicting_property = named

    def exhaust_daily_limit(self) -> None:
        self.crm.daily_limit_exhausted = True


@dataclass
class HubSpotHarness:
    sandbox: ProviderSandbox
    clock: FakeClock

    def __post_init__(self) -> None:
        crm = HubSpotCrm.from_token("pat-test-1", api_base=self.sandbox.url)
        self.crm = replace(crm, now=self.clock.now)
        self.users: HubSpotContacts = self.sandbox.hubspot

    def writes(self) -> list[int]:
        return [one.writes for one in self.sandbox.ledger.contacts]

    def fail_next(self, step: str, fault: ProviderFault) -> None:
        method, path = ENDPOINTS[step]
        self.sandbox.faults.add(SANDBOX_FAULTS[fault], method=method, path=path)

    def limit_rate(self, step: str, *, seconds: int) -> None:
        method, path = ENDPOINTS[step]
        self.sandbox.faults.add("rate_limit", method=method, path=path, seconds=seconds)

    def set_reports_conflicting_property(self, named: bool) -> None:  # noqa: FBT001  # a switch
        self.sandbox.hubspot.reports_conflicting_property = named

    def exhaust_daily_limit(self) -> None:
        self.sandbox.hubspot.is_daily_limit_reached = True


CrmHarness = FakeCrmHarness | HubSpotHarness


@contextmanager
def crm_harness(name: str) -> Iterator[CrmHarness]:
    if name == "fake":
        yield FakeCrmHarness()
        return
    clock = FakeClock()
    with ProviderSandbox(clock=clock.now) as sandbox:
        yield HubSpotHarness(sandbox, clock)
