"""HubSpot's client over its model, in this process and over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from oncely.plugins.provider import Network
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.hubspot.crm import HubSpotCrm
from oncely.providers.hubspot.sandbox.api import HubSpotSandbox
from oncely.providers.hubspot.sandbox.model import HubSpotContacts
from oncely.testing.in_process import InProcessSandbox, base_url
from oncely.testing.sandbox import Sandbox, SandboxOptions
from oncely.testing.sandbox.server import SandboxProviders
from tests.support.crm import SANDBOX_FAULTS
from tests.support.fakes import FakeClock
from tests.support.provider_fault import ProviderFault

CONNECTIONS = ("in process", "over HTTP")


@dataclass
class CrmHarness:
    sandbox: SandboxProviders
    crm: HubSpotCrm
    clock: FakeClock

    @property
    def model(self) -> HubSpotSandbox:
        model = self.sandbox.providers[HUBSPOT.name]
        assert isinstance(model, HubSpotSandbox)
        return model

    @property
    def users(self) -> HubSpotContacts:
        return self.model.contacts

    def writes(self) -> list[int]:
        return [one.writes for one in self.model.ledger.contacts]

    def fail_next(self, step: str, fault: ProviderFault) -> None:
        self.sandbox.faults.add(SANDBOX_FAULTS[fault], **self.model.requests[step])

    def limit_rate(self, step: str, *, seconds: int) -> None:
        self.sandbox.faults.add("rate_limit", seconds=seconds, **self.model.requests[step])


@contextmanager
def crm_harness(connection: str) -> Iterator[CrmHarness]:
    clock = FakeClock()
    options = SandboxOptions(clock=clock.now)
    if connection == "in process":
        model = InProcessSandbox([HUBSPOT], options=options)
        yield _harness(model, base_url(HUBSPOT.name), model.network, clock)
        return
    with Sandbox([HUBSPOT], options=options) as served:
        yield _harness(served, served.url, Network(now=clock.now), clock)


def _harness(sandbox: SandboxProviders, url: str, network: Network, clock: FakeClock) -> CrmHarness:
    token = sandbox.providers[HUBSPOT.name].api_key
    return CrmHarness(sandbox, HubSpotCrm.from_token(token, api_base=url, network=network), clock)
