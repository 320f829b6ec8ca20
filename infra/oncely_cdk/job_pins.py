"""The lock of the packages that a team's jobs import: `oncely lock` writes it, synth checks it."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from oncely_cdk.layers import Layer
from oncely_cdk.stages import StageError

_PIN: Final = re.compile(r"^([\w.-]+)(?:\[[^]]*])?\s*==\s*([^\s;\\]+)")
# pip's options for where packages come from.
_ADDRESSES: Final = ("-i", "-f", "--index-url", "--extra-index-url", "--find-links")


def check_lock(lock: Path, layers: Iterable[Layer]) -> None:
    """Check a team's lock against the layers beside it. Raises StageError with one sentence."""
    if not lock.is_file():
        raise StageError(f"requirements names {lock.name}, which does not exist: run `oncely lock`")
    for line in _lines(lock):
        if line.startswith(_ADDRESSES):
            raise StageError(
                f"{lock.name} names a package index, which is a setting of each machine: run "
                "`oncely lock`"
            )
        if "--hash=" not in line:
            raise StageError(
                f"{lock.name} has {line.split()[0]} without a hash: run `oncely lock`, which "
                "writes all versions with hashes"
            )
    own = read_pins(lock)
    for layer in layers:
        for name, versions in read_pins(layer.requirements).items():
            if name in own and own[name].isdisjoint(versions):
                raise StageError(
                    f"{lock.name} pins {name} {_either(own[name])}, but the layer {layer.name!r} "
                    f"of the same functions has {_either(versions)}: run `oncely lock`, which "
                    "keeps to that version"
                )


def read_pins(file: Path) -> dict[str, set[str]]:
    """Read the versions of each package. A lock for several platforms can have more than one."""
    pins: dict[str, set[str]] = {}
    for line in _lines(file):
        if found := _PIN.match(line):
            pins.setdefault(_normalize_name(found[1]), set()).add(found[2])
    return pins


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _lines(file: Path) -> Iterator[str]:
    """Yield the lines that pip reads, each with its continuations."""
    text = file.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    yield from (line for line in lines if line and not line.startswith("#"))


def _either(versions: set[str]) -> str:
    return " or ".join(sorted(versions))
