"""The CRMs of the conformance suite, each with its ledger and a way to make it fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from oncely.domain.effect_outcomes import NotSent
from oncely.providers.hubspot.crm import HubSpotCrm
from oncely.providers.hubspot.fake import FakeCrm
from oncely.providers.hubspot.sandbox.contacts import HubSpotContacts
from oncely.testing.provider_fault import ProviderFault
from tests.conformance.payment_harnesses import SANDBOX_FAULTS
from tests.support.fakes import FakeClock
from tests.support.shipped_sandbox import ShippedSandbox

CRMS = ("fake", "hubspot")


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
    sandbox: ShippedSandbox
    clock: FakeClock

    def __post_init__(self) -> None:
        crm = HubSpotCrm.from_token("pat-test-1", api_base=self.sandbox.url)
        self.crm = replace(crm, now=self.clock.now)
        self.users: HubSpotContacts = self.sandbox.hubspot.contacts

    def writes(self) -> list[int]:
        return [one.writes for one in self.sandbox.hubspot.ledger.contacts]

    def fail_next(self, step: str, fault: ProviderFault) -> None:
        self.sandbox.faults.add(SANDBOX_FAULTS[fault], **self.sandbox.hubspot.requests[step])

    def limit_rate(self, step: str, *, seconds: int) -> None:
        pattern = self.sandbox.hubspot.requests[step]
        self.sandbox.faults.add("rate_limit", seconds=seconds, **pattern)

    def set_reports_conflicting_property(self, named: bool) -> None:  # noqa: FBT001  # a switch
        self.sandbox.hubspot.contacts.reports_conflicting_property = named

    def exhaust_daily_limit(self) -> None:
        self.sandbox.hubspot.contacts.is_daily_limit_reached = True


CrmHarness = FakeCrmHarness | HubSpotHarness


@contextmanager
def crm_harness(name: str) -> Iterator[CrmHarness]:
    if name == "fake":
        yield FakeCrmHarness()
        return
    clock = FakeClock()
    with ShippedSandbox(clock=clock.now) as sandbox:
        yield HubSpotHarness(sandbox, clock)
