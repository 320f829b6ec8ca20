"""A local AWS that is restarted during a run and keeps every confirmed write.

Stopped gently: AWS never forgets a write that it has answered, and MiniStack saves its state only
when it ends by itself. What is under way at that moment is lost or unanswered, as in an outage.
"""

import os
import signal
import time
from pathlib import Path
from typing import Final

from oncely_local.engine import Engine, free_port, start_engine

START_TIMEOUT_SECONDS: Final = 60.0


class RestartableEngine:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._engine = self._start()
        self.restarts = 0

    @property
    def current(self) -> Engine:
        return self._engine

    def restart(self, *, downtime_seconds: float) -> None:
        self._end()
        time.sleep(downtime_seconds)
        self._engine = self._start()
        self.restarts += 1

    def stop(self) -> None:
        self._engine.stop()

    def _start(self) -> Engine:
        return start_engine(
            self._folder / "engine.log",
            settings={
                "PERSIST_STATE": "1",
                "STATE_DIR": str(self._folder / "state"),
                "S3_PERSIST": "1",
                "S3_DATA_DIR": str(self._folder / "s3"),
            },
            pick_port=lambda: self._port,
        )

    def _end(self) -> None:
        pid = self._engine.pid
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + START_TIMEOUT_SECONDS
        # The process that started it reaps it.
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"the engine did not end within {START_TIMEOUT_SECONDS:.0f} s")
            time.sleep(0.05)
        self._engine.stop()
