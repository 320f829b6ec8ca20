"""Providers on this machine, over real HTTP, with faults and a ledger."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from oncely.testing.sandbox.faults import FaultKind, FaultSet, SandboxFault
    from oncely.testing.sandbox.ledger import Ledger
    from oncely.testing.sandbox.provider_sandbox import ProviderSandbox

__all__ = ["FaultKind", "FaultSet", "Ledger", "ProviderSandbox", "SandboxFault"]

# Imported on first use: the providers' sandboxes import modules of this package themselves.
_MODULES: Final = {
    "FaultKind": "oncely.testing.sandbox.faults",
    "FaultSet": "oncely.testing.sandbox.faults",
    "Ledger": "oncely.testing.sandbox.ledger",
    "ProviderSandbox": "oncely.testing.sandbox.provider_sandbox",
    "SandboxFault": "oncely.testing.sandbox.faults",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
