"""The environment of the local AWS, apart from the project's: it pins other packages."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

from oncely_local.engine import EngineError

REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")
# In the environment, once everything is installed: the digest of the pins.
_STAMP: Final = ".oncely-engine"


def install_if_missing(environment: Path) -> None:
    """Create the environment on its first use, and again if the pins have changed."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    stamp = environment / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return
    python = environment / "bin" / "python"
    _run(sys.executable, "-m", "venv", "--clear", str(environment))
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    _run(str(python), *pip, "--require-hashes", "--requirement", str(REQUIREMENTS))
    stamp.write_text(digest, encoding="utf-8")


def _run(*command: str) -> None:
    done = subprocess.run(  # noqa: S603  # this interpreter, with the pins of this package
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EngineError(
            "Cannot install the local AWS. Its first use needs the package index that pip is "
            f"configured for:\n{done.stderr.strip()}"
        )
