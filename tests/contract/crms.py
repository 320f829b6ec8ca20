"""The CRMs that the contract suites are run on, each with its truth and a way to make it fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol

from infra.local.sandbox import ProviderSandbox
from infra.local.sandbox.hubspot_contacts import HubSpotContacts
from oncely.adapters.hubspot import HubSpotCrm
from oncely.adapters.hubspot_paths import CONTACTS
from oncely.domain.answers import NotSent
from oncely.providers import Crm
from tests.support.crm import FakeCrm
from tests.support.fakes import FakeClock
from tests.support.payments import Fault

CRMS = ("fake", "hubspot")
PATHS = {
    "fetch": ("GET", f"{CONTACTS}/*"),
    "page": ("GET", CONTACTS),
    "changed": ("POST", "*/search"),
    "push": ("P*", f"{CONTACTS}/*"),
    "find": ("GET", f"{CONTACTS}/*"),
}
KINDS = {
    Fault.TIMEOUT_BEFORE: "drop_before",
    Fault.TIMEOUT_AFTER: "accept_then_drop",
    Fault.UNAUTHORIZED: "unauthorized",
}


class People(Protocol):
    """Those who work in the CRM."""

    def add(self, **properties: str) -> str: ...

    def add_contacts(self, number: int) -> list[str]: ...

    def update(self, record_id: str, /, **properties: str) -> None: ...

    def archive(self, record_id: str, /) -> None: ...


class Bench(Protocol):
    """A CRM, its truth, and a way to make it fail."""

    clock: FakeClock

    @property
    def crm(self) -> Crm: ...

    @property
    def people(self) -> People: ...

    def writes(self) -> list[int]: ...

    def fails(self, step: str, fault: Fault) -> None: ...

    def limits_rate(self, step: str, *, seconds: int) -> None: ...

    def names_what_collided(self, named: bool) -> None: ...  # noqa: FBT001  # a switch

    def spends_its_daily_limit(self) -> None: ...


@dataclass
class FakeBench:
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.crm: FakeCrm = FakeCrm(clock=self.clock)
        self.people: FakeCrm = self.crm

    def writes(self) -> list[int]:
        return [self.crm.writes[one] for one in self.crm.contacts]

    def fails(self, step: str, fault: Fault) -> None:
        self.crm.fails(step, fault)

    def limits_rate(self, step: str, *, seconds: int) -> None:
        self.crm.fails(step, NotSent("429", timedelta(seconds=seconds)))

    def names_what_collided(self, named: bool) -> None:  # noqa: FBT001  # a switch
        self.crm.names_what_collided = named

    def spends_its_daily_limit(self) -> None:
        self.crm.daily_limit_is_spent = True


@dataclass
class HubSpotBench:
    sandbox: ProviderSandbox
    clock: FakeClock

    def __post_init__(self) -> None:
        crm = HubSpotCrm.with_token("pat-test-1", api_base=self.sandbox.url)
        self.crm = replace(crm, now=self.clock.now)
        self.people: HubSpotContacts = self.sandbox.hubspot

    def writes(self) -> list[int]:
        return [one.writes for one in self.sandbox.ledger.contacts]

    def fails(self, step: str, fault: Fault) -> None:
        method, path = PATHS[step]
        self.sandbox.faults.add(KINDS[fault], method=method, path=path)

    def limits_rate(self, step: str, *, seconds: int) -> None:
        method, path = PATHS[step]
        self.sandbox.faults.add("rate_limit", method=method, path=path, seconds=seconds)

    def names_what_collided(self, named: bool) -> None:  # noqa: FBT001  # a switch
        self.sandbox.hubspot.names_what_collided = named

    def spends_its_daily_limit(self) -> None:
        self.sandbox.hubspot.daily_limit_is_spent = True


@contextmanager
def crm_bench(name: str) -> Iterator[Bench]:
    """A fresh CRM of this kind, empty."""
    if name == "fake":
        yield FakeBench()
        return
    clock = FakeClock()
    with ProviderSandbox(clock=clock.now) as sandbox:
        yield HubSpotBench(sandbox, clock)
