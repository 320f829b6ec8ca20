"""`python -m tests.soak.audit`: an audit of 100,000 orders finds what was planted, in 300 MB.

The command runs in a process of its own, against an archive on a local S3 and the providers'
sandboxes over HTTP. Each kind of difference is planted at each provider.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from oncely.app import App, app_from_env
from oncely.aws.clients import AwsClients
from oncely.cli.main import app as command
from oncely.contracts.job import providers_of
from oncely.contracts.job_names import jobs_from_env
from oncely.core.effect_outcomes import Json
from oncely.core.job_row import EvidenceEntry, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.money import Money
from oncely.history.lines import HistoryLine, backfill_line
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.plugins.ledger import DifferenceKind
from oncely.providers.braintree.sandbox import SUBMITTED, RecordedTransaction
from oncely.providers.stripe.sandbox.model import (
    Charge,
    ChargeStatus,
    Dispute,
    IntentStatus,
    PaymentIntent,
    RecordedRefund,
)
from oncely.testing.sandbox import Sandbox
from oncely_local.engine import start_engine
from tests.soak.environment import create_environment
from tests.soak.report import print_lines
from tests.support.history_lines import edited

DAY: Final = datetime(2026, 11, 16, tzinfo=UTC)
MAX_MEMORY_MB: Final = 300
PLANTED: Final = 10  # of each kind at each provider
NOT_OURS: Final = 500
# Of clean orders: refunded by a job, half of them in part; by hand; and by a void at Braintree.
REFUNDED_EVERY: Final = 97
BY_HAND_EVERY: Final = 89
VOIDED_EVERY: Final = 83
UNRESOLVED: Final = 100
LINES_PER_OBJECT: Final = 2_000
PROVIDERS: Final = ("stripe", "braintree")
UNKNOWN: Final = "unresolved"
REFUND_PLANTS: Final = frozenset(
    {
        DifferenceKind.REFUND_OF_FAILED_JOB,
        DifferenceKind.SEVERAL_REFUNDS,
        DifferenceKind.JOB_WITHOUT_REFUND,
        DifferenceKind.REFUND_FAILED_LATER,
    }
)


@dataclass(frozen=True)
class AuditedOrder:
    """One order, and what is wrong with it."""

    number: int
    provider: str
    plant: str | None
    deployment: str
    at: datetime

    @property
    def job_key(self) -> JobKey:
        return JobKey(f"payment.charge:order_{self.number}")

    @property
    def has_job(self) -> bool:
        return self.plant != DifferenceKind.CHARGE_WITHOUT_JOB

    @property
    def amount(self) -> int:
        return 100 + self.number % 50_000

    @property
    def ref(self) -> str:
        return f"{'pi_' if self.provider == 'stripe' else 'bt'}{self.number:08x}"

    @property
    def charge_id(self) -> str:
        return self.ref.replace("pi_", "ch_")

    @property
    def is_voided(self) -> bool:
        return self._is_clean(VOIDED_EVERY) and self.provider == "braintree"

    @property
    def is_refunded_by_hand(self) -> bool:
        return self._is_clean(BY_HAND_EVERY) and not self.is_voided and self.refund_job is None

    def _is_clean(self, every: int) -> bool:
        return self.plant is None and self.number % every == 0

    @property
    def job(self) -> JobRow:
        status = {DifferenceKind.CHARGE_OF_FAILED_JOB: Status.FAILED, UNKNOWN: Status.UNKNOWN}
        ended = self.at + timedelta(seconds=1)
        result: dict[str, Json] = {"charge_id": self.charge_id}
        noted = EvidenceEntry(
            at=ended,
            event=Event.NOTE,
            from_status=Status.FINISHED,
            to_status=Status.FINISHED,
            reason=f"the provider reports: {self.charge_id} was refunded, not only by Oncely",
            actor="events",
        )
        return JobRow(
            job_key=self.job_key,
            job_type="payment.charge",
            status=status.get(self.plant or "", Status.FINISHED),
            message={"job": "payment.charge", "v": 1, "order_id": str(self.number)},
            created_at=self.at - timedelta(seconds=1),
            updated_at=ended,
            fence=1,
            version=4,
            attempts=1,
            deployment=self.deployment,
            provider=self.provider,
            customer_id="customer_7",
            amount=self.amount,
            currency="eur",
            # As an order's row claims it, without a payment of its own.
            provider_ref=None if self.plant == DifferenceKind.CHARGE_ID_UNKNOWN else self.ref,
            result={} if self.plant == DifferenceKind.JOB_WITHOUT_CHARGE else result,
            evidence=(noted,) if self.plant is None and self.number % BY_HAND_EVERY == 0 else (),
        )

    @property
    def refund_job(self) -> JobRow | None:
        """The job that refunded it, if one did: planted without a refund, or one of many."""
        if self.plant not in REFUND_PLANTS and not self._is_clean(REFUNDED_EVERY):
            return self._void_job if self.is_voided else None
        order, refund_id = str(self.number), f"rma_{self.number}"
        message: dict[str, Json] = {
            "job": "payment.refund",
            "v": 1,
            "order_id": order,
            "refund_id": refund_id,
        }
        return replace(
            self.job,
            job_key=JobKey(f"payment.refund:order_{order}:{refund_id}"),
            job_type="payment.refund",
            status=(
                Status.CANCELLED
                if self.plant == DifferenceKind.REFUND_OF_FAILED_JOB
                else Status.FINISHED
            ),
            message=message,
            amount=self.amount // 2 if self.number % 2 else self.amount,
            provider_ref=f"re_{order}",
            result={"refund": f"re_{order}", "charge_id": self.charge_id},
        )

    @property
    def _void_job(self) -> JobRow:
        refund_id = f"rma_{self.number}"
        message: dict[str, Json] = {
            "job": "payment.refund",
            "v": 1,
            "order_id": str(self.number),
            "refund_id": refund_id,
        }
        return replace(
            self.job,
            job_key=JobKey(f"payment.refund:order_{self.number}:{refund_id}"),
            job_type="payment.refund",
            message=message,
        )

    @property
    def refunds(self) -> list[str]:
        """The ids of its refunds at the provider."""
        if self.is_refunded_by_hand or self.plant == DifferenceKind.REFUND_WITHOUT_JOB:
            return [f"re_{self.number}"]
        if (
            self.refund_job is None
            or self.is_voided
            or self.plant == DifferenceKind.JOB_WITHOUT_REFUND
        ):
            return []
        again = [f"re_{self.number}b"] if self.plant == DifferenceKind.SEVERAL_REFUNDS else []
        return [f"re_{self.number}", *again]

    @property
    def has_charge(self) -> bool:
        missing = {DifferenceKind.JOB_WITHOUT_CHARGE, DifferenceKind.CHARGE_ID_UNKNOWN}
        return self.plant not in missing

    @property
    def jobs(self) -> list[JobRow]:
        return [job for job in (self.job, self.refund_job) if job is not None]

    def lines(self, job: JobRow) -> Iterator[HistoryLine]:
        """The history of a job: the claim, the saved reference, the end, and the publication."""
        last = backfill_line(job, generation="T1")
        first = edited(last, status="started", version=1, provider_ref=None, result=None)
        yield replace(first, at=self.at - timedelta(seconds=1))
        yield edited(first, at=self.at, version=2, provider_ref=job.provider_ref)
        yield replace(last, version=3)
        yield replace(last, at=last.at + timedelta(seconds=1), version=4)


def generate_orders(number: int, deployment: str) -> Iterator[AuditedOrder]:
    """Orders over one day. The last ones of each provider have something planted."""
    kinds = [kind for kind in DifferenceKind for _ in range(PLANTED)] + [UNKNOWN] * UNRESOLVED
    shares = {"stripe": number * 4 // 5, "braintree": number // 5}
    position = 0
    for provider, share in shares.items():
        for index in range(share):
            position += 1
            left = share - index - 1
            yield AuditedOrder(
                number=position,
                provider=provider,
                plant=kinds[left] if left < len(kinds) else None,
                deployment=deployment,
                at=DAY + timedelta(seconds=5 + 86_000 * index / share),
            )


def plant_stripe(
    order: AuditedOrder,
    ledger: Any,  # noqa: ANN401  # of its provider
    *,
    suffix: str = "",
    ours: bool = True,  # of any provider
) -> None:
    """Record what Stripe did for an order. Its ledger is in the order of time."""
    metadata = {"job_key": order.job_key, "deployment": order.deployment} if ours else {}
    fails = order.plant == DifferenceKind.CHARGE_FAILED_LATER
    amount = order.amount + (order.plant == DifferenceKind.AMOUNT_DIFFERS)
    currency = "usd" if order.plant == DifferenceKind.CURRENCY_DIFFERS else "eur"
    money: dict[str, Any] = {"amount": amount, "currency": currency, "created": order.at}
    charge_id, intent_id = f"{order.charge_id}{suffix}", f"{order.ref}{suffix}"
    ids: dict[str, Any] = {"charge_id": charge_id, "intent_id": intent_id}
    ledger.save(
        PaymentIntent(
            intent_id=intent_id,
            status=IntentStatus.SUCCEEDED if order.has_charge else IntentStatus.CANCELED,
            metadata=metadata,
            latest_charge=charge_id if order.has_charge else None,
            **money,
        )
    )
    if not order.has_charge:
        return
    charge = Charge(
        status=ChargeStatus.FAILED if fails else ChargeStatus.SUCCEEDED,
        customer="cus_7",
        payment_method="pm_card_visa",
        metadata=metadata,
        idempotency_key=None,
        **ids,
        **money,
    )
    ledger.save(charge)
    for refund_id in order.refunds if ours else ():
        job = order.refund_job
        named = {"job_key": job.job_key, "deployment": order.deployment} if job else {}
        failed = order.plant == DifferenceKind.REFUND_FAILED_LATER
        given = {**money, "amount": amount if job is None else job.amount}
        status = "failed" if failed else "succeeded"
        ledger.save(
            RecordedRefund(refund_id=refund_id, metadata=named, status=status, **ids, **given)
        )
    if order.plant == DifferenceKind.DISPUTE:
        ledger.save(Dispute(dispute_id=f"dp_{order.number}", **ids, **money))


def plant_braintree(
    order: AuditedOrder,
    ledger: Any,  # noqa: ANN401  # of its provider
    *,
    suffix: str = "",
    ours: bool = True,  # same
) -> None:
    """Record what Braintree did for an order."""
    if not order.has_charge:
        return
    amount = order.amount + (order.plant == DifferenceKind.AMOUNT_DIFFERS)
    status = (
        "settlement_declined" if order.plant == DifferenceKind.CHARGE_FAILED_LATER else SUBMITTED
    )
    sale = RecordedTransaction(
        transaction_id=f"{order.ref}{suffix}",
        money=Money(amount, "usd" if order.plant == DifferenceKind.CURRENCY_DIFFERS else "eur"),
        merchant_account="oncely_eur",
        created=order.at,
        status="voided" if order.is_voided and ours else status,
        order_id=f"{order.deployment}:{order.job_key}" if ours else "their own",
        customer="cus_7",
        token="bt_visa",  # a payment method, no secret
    )
    if order.plant == DifferenceKind.DISPUTE:
        sale = replace(sale, disputes=((f"dp_{order.number}", order.at),))
    ledger.save(sale)
    for refund_id in order.refunds if ours else ():
        job = order.refund_job
        failed = order.plant == DifferenceKind.REFUND_FAILED_LATER
        refund = replace(
            sale,
            type="credit",
            transaction_id=refund_id,
            refunded_id=order.ref,
            status="failed" if failed else "settled",
        )
        if job is not None:
            label = f"{order.deployment}:{job.job_key}"
            money = Money(job.amount or 0, "eur")
            refund = replace(refund, order_id=label, money=money)
        ledger.save(refund)


def prepare(
    sandbox: Sandbox, app: App, orders: Iterator[AuditedOrder]
) -> set[tuple[str, str, str]]:
    """Write both sides. Returns the planted differences: kind, provider and job key."""
    planted: set[tuple[str, str, str]] = set()
    waiting: defaultdict[tuple[str, int], list[HistoryLine]] = defaultdict(list)
    plants = {"stripe": plant_stripe, "braintree": plant_braintree}
    for order in orders:
        ledger = sandbox.providers[order.provider].ledger
        plants[order.provider](order, ledger)
        if order.plant == DifferenceKind.SEVERAL_CHARGES:
            plants[order.provider](order, ledger, suffix="a")
        if order.plant is None and order.number % 199 == 0 and order.number < 199 * NOT_OURS:
            plants[order.provider](order, ledger, suffix="f", ours=False)
        for job in order.jobs if order.has_job else ():
            waiting[job.job_type, order.at.hour] += order.lines(job)
            # The rows of refunds are read by the label of each; those of charges, if they differ.
            is_noted = order.is_refunded_by_hand or order.is_voided
            if order.plant is not None or is_noted or job.job_key != order.job_key:
                app.ports.job_store().create(job)
        if order.plant not in {None, UNKNOWN}:
            planted.add((str(order.plant), order.provider, order.jobs[-1].job_key))
    for (job_type, hour), lines in waiting.items():
        for start in range(0, len(lines), LINES_PER_OBJECT):
            name = f"{hour:02d}0000-{hour:02d}5959-{start}"
            group = lines[start : start + LINES_PER_OBJECT]
            app.ports.history.put(DAY.date(), job_type, name, group)
    return planted


@dataclass(frozen=True)
class ChildConnection:
    """The stack of the audited process: what the environment names."""

    name: str = "Oncely-soak"
    cli_options: str = ""
    is_local: bool = True

    @property
    def app(self) -> App:
        return app_from_env(os.environ, jobs_from_env(os.environ))


def run_command() -> None:
    """Run the command, and print its peak memory to stderr."""
    words = ["audit", "payments", "--from", f"{DAY:%F}", "--to", f"{DAY + timedelta(days=1):%F}"]
    try:
        command([*words, "--json"], obj=lambda _: ChildConnection())
    finally:
        # Not from `getrusage`, which counts the memory of the parent before the new program.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        kilobytes = next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)
        sys.stderr.write(f"\npeak {int(kilobytes) // 1024}\n")


def run_audit(*, orders: int) -> Iterator[str]:
    with ExitStack() as open_until_the_end:
        folder = Path(open_until_the_end.enter_context(tempfile.TemporaryDirectory()))
        engine = open_until_the_end.enter_context(start_engine(folder / "engine.log"))
        sandbox = open_until_the_end.enter_context(Sandbox(providers_of(SHIPPED_JOBS)))
        environment = create_environment(engine, sandbox)
        os.environ.update(environment.env_vars)
        app = app_from_env(environment.env_vars, SHIPPED_JOBS, clients=AwsClients())
        deployment = app.payment_auditor.deployment()
        began = time.monotonic()
        planted = prepare(sandbox, app, generate_orders(orders, deployment))
        yield f"{orders:,} orders and {len(planted)} differences in {_since(began)}"
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "tests.soak.audit", "--child"],
            env={**environment.env_vars, "XDG_CACHE_HOME": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        yield f"audited in {_since(began)}, exit code {done.returncode}"
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        found = {
            (line["kind"], line["provider"], line["job_key"])
            for line in lines
            if line["record"] == "difference"
        }
        for line in lines:
            if line["record"] == "total":
                yield json.dumps(line)
        yield f"{sum(line['record'] == 'note' for line in lines):,} notes"
        if done.returncode != 4 or not lines:  # the code for differences
            yield f"VIOLATED: {done.stderr[-2000:]}"
            return
        if found != planted or lines[-1]["differences"] != len(planted):
            missing, more = sorted(planted - found), sorted(found - planted)
            yield f"VIOLATED: missing {missing[:5]}, more {more[:5]}"
        memory = int(done.stderr.rpartition("peak ")[2])
        yield f"peak memory {memory} MB"
        if memory > MAX_MEMORY_MB:
            yield f"VIOLATED: more than {MAX_MEMORY_MB} MB"


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.0f} s"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.audit", description=__doc__)
    parser.add_argument("--orders", type=int, default=100_000, help="how many orders")
    parser.add_argument("--child", action="store_true", help="run the command (used internally)")
    given = parser.parse_args()
    if given.child:
        run_command()
    return print_lines(run_audit(orders=given.orders))


if __name__ == "__main__":
    sys.exit(main())
