"""What `make local` leaves behind, so that commands find the stack on this machine."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from oncely.cli.exits import CommandError, ExitCode
from oncely.cli.repository import find_repository

STATE_FILE: Final = Path(".build") / "local.json"
_REGION: Final = "us-east-1"
_NOT_RUNNING: Final = "No local stack is running here: start one with `make local`, in a clone."


@dataclass(frozen=True, kw_only=True)
class LocalState:
    """Where the local AWS listens, and what its stack is called."""

    endpoint: str
    stack: str
    region: str

    @classmethod
    def read(cls) -> Self:
        """The state of the clone that the command is run in."""
        try:
            found = json.loads((find_repository() / STATE_FILE).read_text())
            if "pid" in found:
                os.kill(int(found["pid"]), 0)  # raises when it died without a word
            return cls(
                endpoint=str(found["endpoint"]),
                stack=str(found.get("stack", "Oncely-local")),
                region=str(found.get("region", _REGION)),
            )
        except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
            raise CommandError(_NOT_RUNNING, ExitCode.UNREACHABLE) from error

    def boto3_env(self) -> dict[str, str]:
        """What boto3 needs to reach it and no other."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }
