"""Packages of other teams: a job with its own provider, and one derived from a shipped job."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

VOUCHERS: Final = '''
from datetime import timedelta
from typing import Literal

from oncely import (
    Contract, Description, EffectCall, EffectOutcome, JobKey, Message, PrecheckResult, Proceed,
    Provider, ProviderAccess, ProviderProfile, ProviderSettings, Resources, RetryPolicy,
    RetrySafety, job_key,
)


class VoucherApi:
    """The client."""


class VoucherProvider(Provider[VoucherApi, ProviderSettings]):
    name = "voucher_api"
    profile = ProviderProfile(
        name="Vouchers", request_timeout=timedelta(seconds=5), max_calls=1,
        key_ttl=timedelta(hours=24),
    )

    def connect(self, access: ProviderAccess[ProviderSettings]) -> VoucherApi:
        return VoucherApi()


PROVIDER = VoucherProvider()


class VoucherMessage(Message):
    job: Literal["voucher.issue"]
    v: Literal[1]
    voucher_id: str


class VoucherIssue(Contract[VoucherMessage, str]):
    job_type = "voucher.issue"
    message = VoucherMessage
    example = VoucherMessage.model_construct(job="voucher.issue", v=1, voucher_id="7")
    policy = RetryPolicy(safety=RetrySafety.KEYED, profile=PROVIDER.profile)
    resources = Resources(queue="vouchers", reads=("customers",), providers=(PROVIDER,))
    description = Description(
        effect="a voucher is issued.", business_rows="none.", success="issued.", failure="refused."
    )

    @classmethod
    def key(cls, message: VoucherMessage) -> JobKey:
        return job_key(cls.job_type, message.voucher_id)

    def precheck(self, message: VoucherMessage) -> PrecheckResult[str]:
        return Proceed(facts=message.voucher_id, values={"voucher_id": message.voucher_id})

    def execute(self, call: EffectCall[str]) -> EffectOutcome:
        raise NotImplementedError
'''


INVOICES: Final = '''
from typing import Literal

from oncely import Message, Resources
from oncely.jobs.payment_charge import PaymentCharge


class InvoiceMessage(Message):
    job: Literal["invoice.pay"]
    v: Literal[1]


class PayInvoice(PaymentCharge):
    """Its own queue, a table that we do not know, a key of its own."""

    job_type = "invoice.pay"
    message = InvoiceMessage
    personal_fields = ()
    resources = Resources(
        queue="invoices",
        reads=("invoices",),
        writes=("invoices",),
        secrets=("ledger",),
        sends_to=("payments",),
    )
'''


@contextmanager
def own_package(folder: Path, name: str, source: str) -> Iterator[Any]:
    """Write a package with one module `jobs`, and import that while the block runs."""
    package = folder / name
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "jobs.py").write_text(source, encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(f"{name}.jobs")
    finally:
        sys.path.remove(str(folder))
        for module in [one for one in sys.modules if one.partition(".")[0] == name]:
            del sys.modules[module]
