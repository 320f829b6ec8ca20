"""Lets other processes read the ledger and set faults, under `/_sandbox/`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from infra.local.sandbox.faults import Faults
from infra.local.sandbox.ledger import Ledger
from infra.local.sandbox.messages import Answer, Request

PREFIX: Final = "/_sandbox/"
Action = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Control:
    """The sandbox's own interface: not recorded, and never hit by a fault."""

    def __init__(self, ledger: Ledger, faults: Faults, actions: Mapping[str, Action]) -> None:
        self._ledger = ledger
        self._faults = faults
        self._actions = actions

    @staticmethod
    def serves(path: str) -> bool:
        """Say whether the path is the sandbox's own."""
        return path.startswith(PREFIX)

    def answer(self, request: Request) -> Answer:
        """Answer; what the caller got wrong is said in the answer."""
        try:
            return self._answer(request)
        except Exception as error:  # noqa: BLE001 - another process cannot see a traceback
            return Answer(400, {"error": f"{type(error).__name__}: {error}"})

    def _answer(self, request: Request) -> Answer:
        name = request.path.removeprefix(PREFIX)
        match request.method, name:
            case "GET", "ledger":
                return Answer(200, self._ledger.as_json())
            case "GET", "faults":
                return Answer(200, {"faults": self._faults.as_json()})
            case "POST", "faults":
                return Answer(201, self._faults.add(**request.params).as_json())
            case "DELETE", "faults":
                self._faults.clear()
                return Answer(200, {"faults": []})
            case "POST", _ if name in self._actions:
                return Answer(200, self._actions[name](request.params))
            case _:
                return Answer(404, {"error": f"no {request.method} {request.path} here"})
