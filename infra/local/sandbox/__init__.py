"""Providers on this machine, over real HTTP, with faults on demand and a ledger of the truth."""

from infra.local.sandbox.faults import FaultKind, FaultSet, SandboxFault
from infra.local.sandbox.ledger import Ledger
from infra.local.sandbox.provider_sandbox import ProviderSandbox
from infra.local.sandbox.stripe_sandbox import StripeSandbox

__all__ = ["FaultKind", "FaultSet", "Ledger", "ProviderSandbox", "SandboxFault", "StripeSandbox"]
