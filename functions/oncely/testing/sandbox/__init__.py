"""The local sandbox: a server for providers' APIs, with faults on demand and a ledger."""

from oncely.testing.sandbox.faults import FaultKind, FaultSet, SandboxFault
from oncely.testing.sandbox.ledger import EffectState, ProviderLedger, RecordedEffect, job_key_in
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions, sandbox_type
from oncely.testing.sandbox.server import Sandbox

__all__ = [
    "EffectState",
    "FaultKind",
    "FaultSet",
    "ProviderLedger",
    "ProviderSandbox",
    "RecordedEffect",
    "Sandbox",
    "SandboxFault",
    "SandboxOptions",
    "job_key_in",
    "sandbox_type",
]
