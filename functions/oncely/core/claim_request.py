"""The claim of a run, from its message and its precheck."""

from datetime import datetime
from typing import Any

from oncely.core.claims import Claim
from oncely.core.effect_outcomes import Succeeded
from oncely.core.job_row import CLOCK_SKEW
from oncely.core.job_type import AlreadyResolved, AnyJobType, AnyMessage, Proceed
from oncely.core.keys import JobKey, fingerprint
from oncely.core.table_identity import TableOpen


def build_claim(  # each is part of the row
    contract: AnyJobType,
    message: AnyMessage,
    key: JobKey,
    precheck: Proceed[Any] | AlreadyResolved[Any],
    table: TableOpen,
    *,
    deadline: datetime,
    now: datetime,
    owner: str,
) -> Claim:
    """The write that makes a worker the owner."""
    return Claim(
        job_key=key,
        job_type=contract.job_type,
        owner=owner,
        now=now,
        # A call may begin until the deadline and take its timeout. After that the owner is
        # certainly gone.
        lease_until=deadline + contract.policy.profile.request_timeout + CLOCK_SKEW,
        schedule_limit=contract.effective_schedule_limit(),
        message=message.to_dict(),
        fingerprint=None if precheck.values is None else fingerprint(precheck.values),
        customer_id=precheck.customer_id,
        subject=contract.indexed_subject(message),
        amount=None if precheck.money is None else precheck.money.amount,
        currency=None if precheck.money is None else precheck.money.currency,
        deployment=table.deployment,
        provider=precheck.provider,
        key_scope=contract.key_scope() if isinstance(precheck, Proceed) else "",
        requires_failed=precheck.requires_failed if isinstance(precheck, Proceed) else None,
        is_valid=isinstance(precheck, Proceed) or isinstance(precheck.outcome, Succeeded),
    )
