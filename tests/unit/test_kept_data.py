"""`make local` continues with the ports and the providers' ledgers of its last start."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncely_local.engine import HOST, EngineError
from oncely_local.kept_data import KeptData
from tests.support.shipped_sandbox import ShippedSandbox


class StoppedEngine:
    def __init__(self, *, saves: bool) -> None:
        self._saves = saves

    def save_and_stop(self) -> bool:
        return self._saves


@pytest.fixture
def kept(tmp_path: Path) -> KeptData:
    return KeptData(tmp_path / "kept")


def save(kept: KeptData, sandbox: ShippedSandbox, *, saves: bool = True) -> None:
    engine: Any = StoppedEngine(saves=saves)
    kept.save(engine, sandbox)


@pytest.fixture
def sandbox() -> Iterator[ShippedSandbox]:
    with ShippedSandbox() as sandbox:
        yield sandbox


def test_ports_stay_the_same(kept: KeptData) -> None:
    first = kept.choose_ports()
    assert first.engine != first.providers
    assert kept.choose_ports() == first


def test_taken_port_is_replaced_only_if_no_data_needs_it(
    kept: KeptData, sandbox: ShippedSandbox
) -> None:
    first = kept.choose_ports()
    with socket.socket() as other:
        other.bind((HOST, first.engine))
        other.listen()
        second = kept.choose_ports()
        assert first.engine not in {second.engine, second.providers}

    save(kept, sandbox)
    with socket.socket() as other:
        other.bind((HOST, second.engine))
        other.listen()
        with pytest.raises(EngineError, match=f"Port {second.engine} is in use"):
            kept.choose_ports()


def test_ledgers_of_every_provider_are_restored(kept: KeptData, sandbox: ShippedSandbox) -> None:
    kept.choose_ports()
    sandbox.hubspot.add_samples(3)
    sandbox.stripe.ledger.emails["cus_1"] = "ada@example.com"
    save(kept, sandbox)
    assert kept.is_complete

    with ShippedSandbox() as later:
        kept.restore_providers(later)

    assert {*later.providers} == {*sandbox.providers}
    assert vars(later.providers["hubspot"].ledger).keys() == vars(sandbox.hubspot.ledger).keys()
    stripe: Any = later.providers["stripe"]
    assert stripe.ledger.emails == {"cus_1": "ada@example.com"}
    with stripe.ledger.lock:
        assert not stripe.ledger.charges


def test_engine_that_did_not_save_keeps_nothing(kept: KeptData, sandbox: ShippedSandbox) -> None:
    kept.choose_ports()
    save(kept, sandbox)
    assert kept.is_complete
    save(kept, sandbox, saves=False)
    assert not kept.is_complete


def test_deleting_the_data_keeps_the_ports(kept: KeptData, sandbox: ShippedSandbox) -> None:
    ports = kept.choose_ports()
    save(kept, sandbox)
    kept.delete()
    assert not kept.is_complete
    assert kept.choose_ports() == ports


def test_data_of_other_code_says_what_to_do(kept: KeptData, sandbox: ShippedSandbox) -> None:
    kept.choose_ports()
    save(kept, sandbox)
    next(kept.folder.glob("*.pickle")).write_bytes(b"\x80\x05cno_such_module\nThing\n.")
    with pytest.raises(EngineError, match="Start with --fresh"):
        kept.restore_providers(sandbox)
