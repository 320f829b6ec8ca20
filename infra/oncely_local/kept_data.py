"""What `make local` keeps between two starts: its ports, the engine's data, and the providers'."""

import json
import pickle
import shutil
import socket
import threading
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from oncely.testing.sandbox import Sandbox
from oncely_local.engine import HOST, Engine, EngineError, free_port

_LOCKS: Final = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}


@dataclass(frozen=True, kw_only=True)
class LocalPorts:
    """The ports of the engine and of the provider sandbox."""

    engine: int
    providers: int


@dataclass(frozen=True)
class KeptData:
    """A folder with the data of a stack. It is complete once the providers' ledgers are saved."""

    folder: Path

    @property
    def engine(self) -> Path:
        return self.folder / "engine"

    @property
    def is_complete(self) -> bool:
        return self._ledgers.is_file()

    @property
    def _ledgers(self) -> Path:
        return self.folder / "providers.pickle"

    @property
    def _ports(self) -> Path:
        return self.folder / "ports.json"

    def delete(self) -> None:
        """Delete the data. The ports stay."""
        self._ledgers.unlink(missing_ok=True)
        shutil.rmtree(self.engine, ignore_errors=True)

    def choose_ports(self) -> LocalPorts:
        """Return the ports of the last start, or free ones if there is no data yet."""
        try:
            ports = LocalPorts(**json.loads(self._ports.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return self._new_ports()
        taken = [port for port in (ports.engine, ports.providers) if not _is_free(port)]
        if taken and self.is_complete:
            raise EngineError(
                f"Port {taken[0]} is in use, and the kept data needs it: URLs of queues contain "
                "it. Stop the process that uses it, or start with --fresh, which deletes the data."
            )
        return self._new_ports() if taken else ports

    def save(self, engine: Engine, sandbox: Sandbox) -> None:
        """Stop the engine, and save its data and the providers'. Keeps nothing if that fails."""
        # A part of the data would contradict the rest.
        self._ledgers.unlink(missing_ok=True)
        if not engine.save_and_stop():
            return
        packed = BytesIO()
        # Not as objects: the class of a derived model cannot be imported.
        states = {name: one.__getstate__() for name, one in sandbox.providers.items()}
        _Pickler(packed).dump((sandbox.ledger, states))
        scratch = self._ledgers.with_suffix(".new")
        scratch.write_bytes(packed.getvalue())
        scratch.replace(self._ledgers)

    def restore_providers(self, sandbox: Sandbox) -> None:
        try:
            with self._ledgers.open("rb") as file:
                ledger, states = pickle.load(file)  # noqa: S301  # `save` wrote it
        except Exception as error:
            raise EngineError(
                f"Cannot read the kept data of the providers ({type(error).__name__}): other code "
                "wrote it. Start with --fresh, which deletes it."
            ) from error
        sandbox.ledger = ledger
        for name in states.keys() & sandbox.providers.keys():
            vars(sandbox.providers[name]).update(states[name])

    def _new_ports(self) -> LocalPorts:
        ports = LocalPorts(engine=free_port(), providers=free_port())
        self.folder.mkdir(parents=True, exist_ok=True)
        self._ports.write_text(json.dumps(asdict(ports)), encoding="utf-8")
        return ports


class _Pickler(pickle.Pickler):
    """Saves a new lock in place of each lock."""

    def reducer_override(self, obj: Any) -> Any:  # noqa: ANN401  # of any type
        return (_LOCKS[type(obj)], ()) if type(obj) in _LOCKS else NotImplemented


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # A connection that was closed a moment ago does not occupy the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
