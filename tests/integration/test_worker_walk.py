"""How many calls between files a reader follows until a message is `finished`."""

import json
import sys
import threading
from types import FrameType
from typing import Final

from oncely.core.lifecycle import Status
from oncely_cdk.paths import FUNCTIONS
from tests.support.in_memory_stack import charge_message
from tests.support.worker import KEY, WorkerHarness, invoke_handler

# The model of Stripe stands for the vendor. Nothing of ours is cut.
VENDOR: Final = ("oncely/providers/stripe/sandbox/", "oncely/testing/")
# Each function of another file that a file calls counts once.
MAX_CALLS: Final = 105
MAX_FILES: Final = 34


class Walk:
    def __init__(self) -> None:
        self.calls: dict[tuple[str, str, str], None] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        callee, caller = _file(frame), _file(frame.f_back)
        if event != "call" or not callee or not caller or caller.startswith(VENDOR):
            return
        if caller != callee:
            self.calls[caller, callee, frame.f_code.co_qualname] = None


def _file(frame: FrameType | None) -> str | None:
    if frame is None or not frame.f_code.co_filename.startswith(f"{FUNCTIONS}/"):
        return None
    return frame.f_code.co_filename.removeprefix(f"{FUNCTIONS}/")


def test_worker_walk_is_short(rig: WorkerHarness) -> None:
    rig.put_secret()
    rig.world().add_order("first")
    rig.world().add_order()
    invoke_handler(rig.deliver(json.dumps(charge_message("first"))))  # wires the worker
    event = rig.deliver(json.dumps(charge_message()))
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        invoke_handler(event)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)

    assert rig.world().job(KEY).status is Status.FINISHED
    steps = [f"{caller} -> {callee}: {name}" for caller, callee, name in walk.calls]
    files = {file for caller, callee, _ in walk.calls for file in (caller, callee)}
    assert len(files) <= MAX_FILES, sorted(files)
    assert len(steps) <= MAX_CALLS, "\n".join(steps)
