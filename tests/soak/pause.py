"""`python -m tests.soak.pause`: charges are paused and resumed during the demo, as a user does it.

The demo runs in one process, and `oncely pause` and `oncely resume` in others. No charge may begin
10 seconds after the pause, and the demo must end with every guarantee held.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from oncely.jobs.payment_charge import PaymentCharge
from oncely.testing.sandbox import sandbox_type
from oncely_cdk.paths import REPOSITORY
from oncely_local.redeploy import RunningStack
from tests.soak.report import print_lines

TARGET: Final = "payment.charge"
# The requests that begin a charge, or continue one.
CHARGES: Final = tuple(
    sandbox_type(plugin).requests[name]
    for plugin in PaymentCharge.all_providers()
    for name in ("prepare", "execute")
)
EFFECTIVE_SECONDS: Final = 10.0
PAUSED_SECONDS: Final = 30.0
MAX_WAIT_SECONDS: Final = 600.0


def run_pause(*, jobs: int, seed: int) -> Iterator[str]:
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "oncely_local", "demo"),
            *("--jobs", str(jobs), "--seed", str(seed), "--faults", "some"),
        ],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "functions:infra:."},
    ) as demo:
        try:
            _wait_for(lambda: RunningStack.find() is not None, demo)
            _wait_for(lambda: _charges() > 0, demo)
            yield _type_command("pause", TARGET, "--local", "--reason", "wrong prices")
            time.sleep(EFFECTIVE_SECONDS)
            before = _charges()
            time.sleep(PAUSED_SECONDS)
            began = _charges() - before
            yield f"{began} charges began later than {EFFECTIVE_SECONDS:g} s after the pause"
            yield _type_command("resume", TARGET, "--local")
            said, _ = demo.communicate(timeout=MAX_WAIT_SECONDS)
            yield said[said.rindex(" jobs from ") - 10 :]
            yield f"{said.count(f'{TARGET} paused')} lines of the demo said what was paused"
            if began or demo.returncode:
                yield f"VIOLATED: {began} charges began, the demo ended with {demo.returncode}"
        finally:
            if demo.poll() is None:
                demo.terminate()


def _wait_for(condition: Callable[[], bool], demo: subprocess.Popen[str]) -> None:
    until = time.monotonic() + MAX_WAIT_SECONDS
    while not condition():
        if demo.poll() is not None or time.monotonic() > until:
            raise RuntimeError("the demo ended, or nothing was charged")
        time.sleep(0.5)


def _charges() -> int:
    """How many requests to charge the providers got, answered or not."""
    running = RunningStack.find()
    if running is None:
        return 0
    with urlopen(f"{running.providers}/_sandbox/ledger") as response:  # noqa: S310  # our sandbox
        requests = json.load(response)["requests"]
    return sum(
        one["method"] == pattern["method"] and fnmatch(one["path"], pattern["path"])
        for one in requests
        for pattern in CHARGES
    )


def _type_command(*words: str) -> str:
    command = [str(Path(sys.executable).parent / "oncely"), *words]
    typed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if typed.returncode:
        return f"VIOLATED: oncely {words[0]} ended with {typed.returncode}: {typed.stderr}"
    return typed.stdout.splitlines()[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.pause", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200, help="how many jobs, roughly")
    parser.add_argument("--seed", type=int, default=1, help="draws the jobs")
    return print_lines(run_pause(**vars(parser.parse_args())))


if __name__ == "__main__":
    sys.exit(main())
