"""The sandbox of the shipped jobs' providers, with each vendor's part by name."""

from typing import Any

from oncely.contracts.job import providers_of
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.providers.braintree.sandbox import BraintreeSandbox
from oncely.providers.hubspot.sandbox.api import HubSpotSandbox
from oncely.providers.ses.sandbox.api import SesSandbox
from oncely.providers.stripe.sandbox.api import StripeSandbox
from oncely.testing.sandbox import Sandbox, SandboxOptions


class ShippedSandbox(Sandbox):
    def __init__(self, *, seed: int = 0, **options: Any) -> None:  # noqa: ANN401  # fields
        super().__init__(providers_of(SHIPPED_JOBS), seed=seed, options=SandboxOptions(**options))
        names = ("stripe", "braintree", "hubspot", "ses")
        stripe, braintree, hubspot, ses = (self.providers[name] for name in names)
        assert isinstance(stripe, StripeSandbox)
        assert isinstance(braintree, BraintreeSandbox)
        assert isinstance(hubspot, HubSpotSandbox)
        assert isinstance(ses, SesSandbox)
        self.stripe, self.braintree, self.hubspot, self.ses = stripe, braintree, hubspot, ses
