"""The processes of a soak: started, killed, frozen, thawed and replaced."""

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from oncely.domain.jobs import CLOCK_SKEW
from tests.soak.process import SWEEPER

ROLES: Final = ("payments", "payments", "sync", "mail", SWEEPER, SWEEPER)
# No two clocks differ by more than the code allows for.
FARTHEST: Final = CLOCK_SKEW.total_seconds() / 2


@dataclass
class Member:
    """One process."""

    role: str
    process: "subprocess.Popen[bytes]"
    thaws_at: float | None = None

    @property
    def is_dead(self) -> bool:
        return self.process.poll() is not None


@dataclass
class Crew:
    """Six of them, whatever happens to each."""

    variables: dict[str, str]
    log: Path
    draw: random.Random
    members: list[Member] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        self.members = [self._member(role) for role in ROLES]

    def replace_the_dead(self) -> None:
        """Lambda starts another one; its clock is another one, too."""
        for place, member in enumerate(self.members):
            if member.is_dead:
                code = member.process.returncode
                self.counts["died by itself"] += code != -signal.SIGKILL
                self.members[place] = self._member(member.role)

    def kill(self) -> None:
        """End one, wherever it is."""
        member = self.draw.choice(self.members)
        if not member.is_dead:
            member.process.kill()
            member.process.wait()
            self.counts["killed"] += 1

    def freeze(self, now: float, *, seconds: float) -> None:
        """Hold one up, wherever it is; past its lease, if it is long."""
        member = self.draw.choice(self.members)
        if member.thaws_at is None and not member.is_dead:
            member.process.send_signal(signal.SIGSTOP)
            member.thaws_at = now + seconds
            self.counts["frozen"] += 1

    def thaw(self, now: float) -> None:
        for member in self.members:
            if member.thaws_at is not None and member.thaws_at <= now:
                member.thaws_at = None
                if not member.is_dead:
                    member.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Kill all of them; none may act when the clock is moved."""
        for member in self.members:
            member.process.kill()
            member.process.wait()

    def told(self) -> Counter[str]:
        """What they said they had done; the last round of a killed one is not among it."""
        found: Counter[str] = Counter()
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("{"):
                found.update(json.loads(line))
        return found

    def _member(self, role: str) -> Member:
        skew = self.draw.uniform(-FARTHEST, FARTHEST)
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.process", role, f"{skew:.3f}"],
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return Member(role, process)
