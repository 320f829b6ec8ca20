"""Providers on this machine, over real HTTP, with faults on demand and a ledger of the truth."""

from oncely.providers.stripe.sandbox.stripe_sandbox import StripeSandbox
from oncely.testing.sandbox.faults import FaultKind, FaultSet, SandboxFault
from oncely.testing.sandbox.ledger import Ledger
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox

__all__ = ["FaultKind", "FaultSet", "Ledger", "ProviderSandbox", "SandboxFault", "StripeSandbox"]
