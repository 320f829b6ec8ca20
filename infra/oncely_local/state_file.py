"""Where the stack on this machine is, for other terminals and tools: .build/local.json."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from oncely_cdk.paths import REPOSITORY
from oncely_local.account import STACK_NAME
from oncely_local.engine import ACCOUNT, REGION

STATE_FILE: Final = REPOSITORY / ".build" / "local.json"


@dataclass(frozen=True, kw_only=True)
class RunningStack:
    """A stack that is up, as others find it."""

    pid: int  # of the process that ends everything when it ends
    endpoint: str
    providers: str
    outputs: Mapping[str, str]
    code: str  # digests of what is deployed
    shape: str
    stack: str = STACK_NAME
    region: str = REGION
    account: str = ACCOUNT

    @classmethod
    def find(cls, file: Path = STATE_FILE) -> Self | None:
        """The stack that is up; None if there is none, or if it died without a word."""
        try:
            found = cls(**json.loads(file.read_text(encoding="utf-8")))
            os.kill(found.pid, 0)
        except (OSError, ValueError, TypeError):
            return None
        return found

    def write(self, file: Path = STATE_FILE) -> None:
        """Say it to others, all or nothing."""
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        scratch.replace(file)


@contextlib.contextmanager
def advertise(running: RunningStack, file: Path = STATE_FILE) -> Iterator[None]:
    """Let others find the stack while the block lasts."""
    running.write(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
