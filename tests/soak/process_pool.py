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

from oncely.core.job_row import CLOCK_SKEW
from tests.soak.process import SWEEPER

ROLES: Final = ("payments", "payments", "sync", "mail", SWEEPER, SWEEPER)
# No two clocks differ by more than the code allows for.
MAX_SKEW_SECONDS: Final = CLOCK_SKEW.total_seconds() / 2


@dataclass
class PooledProcess:
    role: str
    process: "subprocess.Popen[bytes]"
    resumes_at: float | None = None

    @property
    def has_exited(self) -> bool:
        return self.process.poll() is not None


@dataclass
class ProcessPool:
    variables: dict[str, str]
    log: Path
    rng: random.Random
    processes: list[PooledProcess] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        self.processes = [self._start_process(role) for role in ROLES]

    def replace_exited(self) -> None:
        """Start another one, as Lambda does, with another clock."""
        for place, member in enumerate(self.processes):
            if member.has_exited:
                code = member.process.returncode
                self.counts["died by itself"] += code != -signal.SIGKILL
                self.processes[place] = self._start_process(member.role)

    def kill(self) -> None:
        member = self.rng.choice(self.processes)
        if not member.has_exited:
            member.process.kill()
            member.process.wait()
            self.counts["killed"] += 1

    def freeze(self, now: float, *, seconds: float) -> None:
        """Freeze one at any point, past its lease if `long`."""
        member = self.rng.choice(self.processes)
        if member.resumes_at is None and not member.has_exited:
            member.process.send_signal(signal.SIGSTOP)
            member.resumes_at = now + seconds
            self.counts["frozen"] += 1

    def thaw(self, now: float) -> None:
        for member in self.processes:
            if member.resumes_at is not None and member.resumes_at <= now:
                member.resumes_at = None
                if not member.has_exited:
                    member.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Kill all of them, so that none acts after the clock is moved."""
        for member in self.processes:
            member.process.kill()
            member.process.wait()

    def reported_counts(self) -> Counter[str]:
        """The reported results, without the last round of a killed process."""
        found: Counter[str] = Counter()
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("{"):
                found.update(json.loads(line))
        return found

    def _start_process(self, role: str) -> PooledProcess:
        skew = self.rng.uniform(-MAX_SKEW_SECONDS, MAX_SKEW_SECONDS)
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.process", role, f"{skew:.3f}"],
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return PooledProcess(role, process)
