"""Lets other processes read the ledger and set faults, under `/_sandbox/`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from oncely.testing.sandbox.faults import FaultSet
from oncely.testing.sandbox.http_messages import SandboxRequest, SandboxResponse
from oncely.testing.sandbox.ledger import Ledger

PREFIX: Final = "/_sandbox/"
ControlAction = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class SandboxControl:
    """The sandbox's own interface: not recorded, and never hit by a fault."""

    def __init__(
        self, ledger: Ledger, faults: FaultSet, actions: Mapping[str, ControlAction]
    ) -> None:
        self._ledger = ledger
        self._faults = faults
        self._actions = actions

    @staticmethod
    def serves(path: str) -> bool:
        """Say whether the path is the sandbox's own."""
        return path.startswith(PREFIX)

    def handle(self, request: SandboxRequest) -> SandboxResponse:
        """Answer; what the caller got wrong is said in the answer."""
        try:
            return self._handle(request)
        except Exception as error:  # noqa: BLE001 - another process cannot see a traceback
            return SandboxResponse(400, {"error": f"{type(error).__name__}: {error}"})

    def _handle(self, request: SandboxRequest) -> SandboxResponse:
        name = request.path.removeprefix(PREFIX)
        match request.method, name:
            case "GET", "ledger":
                return SandboxResponse(200, self._ledger.to_dict())
            case "GET", "faults":
                return SandboxResponse(200, {"faults": self._faults.to_dicts()})
            case "POST", "faults":
                return SandboxResponse(201, self._faults.add(**request.params).to_dict())
            case "DELETE", "faults":
                self._faults.clear()
                return SandboxResponse(200, {"faults": []})
            case "POST", _ if name in self._actions:
                return SandboxResponse(200, self._actions[name](request.params))
            case _:
                return SandboxResponse(404, {"error": f"no {request.method} {request.path} here"})
