"""The voucher provider of the shop: the model that follows from its job, with faults by voucher."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from oncely.testing.sandbox import FaultKind, Sandbox

_SHOP: Final = Path(__file__).with_name("shop")
_NAME: Final = "voucher_api"


class VoucherProvider:
    """How it answers, and what it did."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.url = sandbox.url
        self.api_key = sandbox.providers[_NAME].api_key

    @property
    def ledger(self) -> Counter[str]:
        """How often each voucher was issued."""
        return Counter(one.key.partition(":")[2] for one in self._sandbox.effects())

    def refuse(self, voucher_id: str) -> None:
        """Have too many requests to issue a voucher."""
        self._fault(FaultKind.RATE_LIMIT, voucher_id)

    def lose_answers(self, voucher_id: str) -> None:
        """Issue a voucher without an answer, and do not answer lookups."""
        self._fault(FaultKind.ACCEPT_THEN_DROP, voucher_id)

    def hang(self, voucher_id: str) -> None:
        """The same, but the client waits."""
        self._fault(FaultKind.ACCEPT_THEN_HANG, voucher_id)

    def recover(self) -> None:
        """Answer every request."""
        self._sandbox.faults.clear()

    def _fault(self, kind: FaultKind, voucher_id: str) -> None:
        faults, job_key = self._sandbox.faults, f":voucher.issue:{voucher_id}:"
        faults.add(kind, method="POST", key_contains=job_key, times=None)
        faults.add(FaultKind.OUTAGE, path=f"/{_NAME}/vouchers/{voucher_id}", times=None)


@contextmanager
def running_provider() -> Iterator[VoucherProvider]:
    """Run the provider."""
    sys.path.insert(0, str(_SHOP))
    job = resolve_name("shop_jobs.voucher_issue:VoucherIssue")
    with Sandbox(job.all_providers(), jobs=[job]) as sandbox:
        yield VoucherProvider(sandbox)
