"""Packages of other teams: a job with its own provider, and one derived from a shipped job."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

VOUCHERS: Final = '''
from datetime import timedelta

from oncely import (
    Call, EffectOutcome, Job, LookupOutcome, Provider, ProviderAccess, ProviderProfile,
    ProviderSettings,
)


class VoucherApi:
    """The client."""


class VoucherProvider(Provider[VoucherApi, ProviderSettings]):
    name = "voucher_api"
    must_prove_lookups = True
    profile = ProviderProfile(
        name="Vouchers", request_timeout=timedelta(seconds=5), max_calls=1,
        key_ttl=timedelta(hours=24), lookup_lag=timedelta(seconds=5),
    )

    def connect(self, access: ProviderAccess[ProviderSettings]) -> VoucherApi:
        return VoucherApi()


PROVIDER = VoucherProvider()


class VoucherIssue(Job):
    """A voucher is issued."""

    key = "voucher_id"
    provider = PROVIDER
    queue = "vouchers"
    reads = ("customers",)

    voucher_id: str

    def execute(self, call: Call) -> EffectOutcome:
        raise NotImplementedError

    def lookup(self, call: Call) -> LookupOutcome:
        raise NotImplementedError
'''


INVOICES: Final = '''
from oncely.jobs.payment_charge import PaymentCharge


class PayInvoice(PaymentCharge):
    """Its own queue, a table that we do not know, a key of its own."""

    job_type = "invoice.pay"
    queue = "invoices"
    reads = ("invoices",)
    writes = ("invoices",)
    secrets = ("ledger",)
    sends_to = ("payments",)
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
