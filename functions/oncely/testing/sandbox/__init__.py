"""The local sandbox: a server for providers' APIs, with faults on demand and a ledger."""

from oncely.testing.sandbox.faults import FaultKind, FaultSet, SandboxFault

__all__ = ["FaultKind", "FaultSet", "SandboxFault"]
