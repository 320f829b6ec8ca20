"""One process of a soak, to be killed and frozen: `python -m tests.soak.process payments -0.7`.

It processes one queue, or sweeps, until it dies, and prints the result of each round.
"""

import json
import signal
import sys
import time
from typing import Final

from tests.soak.environment import INVOCATION_SECONDS
from tests.soak.services import ENGINE_ERRORS, SkewedClock, SoakServices

SWEEPER: Final = "sweeper"
SWEEP_INTERVAL_SECONDS: Final = 2.0
# Lambda ends an invocation at its timeout. A frozen process may thaw past its lease and act.
MAX_ROUND_SECONDS: Final = int(2 * INVOCATION_SECONDS)


def main(role: str, skew: str) -> None:
    parts = SoakServices(SkewedClock(float(skew)))
    while True:
        signal.alarm(MAX_ROUND_SECONDS)  # not caught, so that it ends the process
        try:
            if role == SWEEPER:
                done = parts.sweep() + parts.handle_leftovers()
                time.sleep(SWEEP_INTERVAL_SECONDS)
            else:
                done = parts.process_batch(role)
        except ENGINE_ERRORS:
            time.sleep(0.5)
            continue
        if done:
            print(json.dumps(done), flush=True)  # noqa: T201  # the soak counts these lines


if __name__ == "__main__":
    main(*sys.argv[1:])
