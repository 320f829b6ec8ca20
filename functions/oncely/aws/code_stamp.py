"""The digests of the deployed code, which are also in the configuration of its functions."""

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from oncely.core.errors import NotConfiguredError

STAMP_FILE: Final = "CODE_STAMP"  # in the engine's layer and in the functions' code
ENGINE_STAMP_ENV_VAR: Final = "ENGINE_STAMP"
JOB_STAMP_ENV_VAR: Final = "JOB_STAMP"

# Of the layer: this file is python/oncely/aws/code_stamp.py in it, three folders down.
_LAYER: Final = Path(__file__).parents[3]


def check_engine_stamp(expected: str | None, *, layer: Path = _LAYER) -> None:
    """Refuse to start if engine and configuration are of two deployments.

    Lambda updates layers, code and variables one after the other, and someone may upload by hand.
    """
    _compare("engine", expected, _read_stamp(layer) or "not stamped")


def check_job_stamp(expected: str | None, *, code: Path, modules: Iterable[str]) -> None:
    """Refuse to start if job code and configuration are of two deployments.

    A team's own function has no stamp in its code. The stamp is then the digest of its jobs.
    """
    if expected is not None:
        _compare("job code", expected, _read_stamp(code) or digest_modules(modules))


def digest_modules(names: Iterable[str]) -> str:
    """Hash the sources of imported modules."""
    mark = hashlib.sha256()
    for name in sorted(set(names)):
        mark.update(f"\n{name}\n".encode())
        mark.update(hashlib.sha256(Path(sys.modules[name].__file__ or "").read_bytes()).digest())
    return mark.hexdigest()


def _read_stamp(folder: Path) -> str | None:
    file = folder / STAMP_FILE
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _compare(part: str, expected: str | None, found: str) -> None:
    if expected is not None and found != expected:
        raise NotConfiguredError(
            f"the {part} of this function is {found[:12]}, but its configuration is of "
            f"{expected[:12]}: wait until the deployment has ended, or deploy the stack again"
        )
