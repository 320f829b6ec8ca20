"""The last write of a job as its contract wants it: with an expiry, or with what it owes."""

from datetime import datetime, timedelta

from oncely.contract import AnyContract
from oncely.domain.jobs import Job
from oncely.domain.proof import MONEY_RETENTION, finalize_if_ended


def apply_retention(
    before: Job,
    after: Job,
    contract: AnyContract | None,
    *,
    row_retention: timedelta | None,
    now: datetime,
) -> Job:
    """The row that a decision leads to; every path that can end a job writes this one.

    A job of a contract that is not known here owes nothing that we know, and stays the longest.
    """
    if before.ended or not after.ended:
        return after
    retention = MONEY_RETENTION if contract is None else contract.effective_retention(row_retention)
    owes = contract is not None and _has_follow_ups(contract, after)
    return finalize_if_ended(before, after, retention=retention, must_publish=owes, now=now)


def _has_follow_ups(contract: AnyContract, job: Job) -> bool:
    try:
        return contract.publishes_events or bool(contract.follow_ups(job))
    except Exception:  # noqa: BLE001  # the effect is done: its end is written, whatever follows it
        return True  # the publisher meets the same error, and says so until it is fixed
