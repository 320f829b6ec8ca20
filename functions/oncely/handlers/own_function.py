"""The handler of a team's own function."""

import os
from collections.abc import Iterable

from oncely.contracts.contract import AnyContract
from oncely.contracts.job_names import refuse_other_jobs
from oncely.handlers.process_queue import handler
from oncely.handlers.telemetry import Handler


def worker(*, jobs: Iterable[type[AnyContract]]) -> Handler:
    """Return the handler of your own function: `handler = oncely.worker(jobs=[VoucherIssue])`.

    The construct (`workers={…}`) gives the function its queue, layers, variables and permissions.
    """
    refuse_other_jobs(jobs, os.environ)
    return handler
