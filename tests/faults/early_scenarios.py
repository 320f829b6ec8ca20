"""Messages before their business rows, and a wrong first message, at any time of a run."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

from oncely.core.effect_outcomes import Json
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Status
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.sync_push import SyncPush
from oncely.providers.ses.sandbox.api import SesSandbox
from oncely.testing import FinalState
from oncely.testing.rows import BusinessRows
from oncely.testing.scenario import RestoreMode, Scenario
from tests.faults import expectations
from tests.faults.expectations import CONTACT, KEY, ORDER
from tests.faults.providers import stripe
from tests.faults.receipt_scenarios import count_sent
from tests.support.orders import order_row

CHARGE: Mapping[str, Json] = {"job": "payment.charge", "v": 1, **ORDER}
WRONG: Mapping[str, Json] = {**CHARGE, "amount": 1}
REWORDED: Mapping[str, Json] = {**CHARGE, "amount": 1250}
RECEIPT: Mapping[str, Json] = {"job": "receipt.send", "v": 1, **ORDER}
PUSH: Mapping[str, Json] = {"job": "sync.push", "v": 1, "target": "hubspot", **CONTACT}


# Two sweeps instead of many.
SHORT_GRACE = timedelta(minutes=2)


class ShortGraceCharge(PaymentCharge):
    grace_period = SHORT_GRACE


class ShortGraceReceipt(ReceiptSend):
    grace_period = SHORT_GRACE


class ShortGracePush(SyncPush):
    grace_period = SHORT_GRACE


def no_rows(_: BusinessRows) -> None:
    return


def add_order(rows: BusinessRows) -> Iterable[Mapping[str, object]]:
    rows.put("orders", ORDER, order_row())
    return [CHARGE]


def pay_order(rows: BusinessRows) -> Iterable[Mapping[str, object]]:
    rows.put("orders", ORDER, order_row(status="paid", charge_id="ch_1"))
    return [RECEIPT]


def put_record(rows: BusinessRows, version: int) -> None:
    record = {"version": version, "record": {"properties": {"email": "7@e.org"}}}
    rows.put("records", CONTACT, record)


def reach_version(rows: BusinessRows) -> Iterable[Mapping[str, object]]:
    put_record(rows, 7)
    return [{**PUSH, "version": 7}]


def send_other_messages(_: BusinessRows) -> Iterable[Mapping[str, object]]:
    return [WRONG, REWORDED]


def check_no_valid_message_is_parked(ended: FinalState) -> Iterator[str]:
    """A review that sent nothing remains only if the business rows never arrived."""
    has_rows = any(True for _ in ended.rows.all())
    for job in ended.jobs.values():
        if has_rows and job.awaits_message:
            yield f"{job.job_key} is in review, and its valid message did not run it"
        if job.waits_for is not None and (job.was_claimed or job.status is not Status.NEEDS_REVIEW):
            yield f"{job.job_key} awaits a message, and {job.fence} workers claimed it"


def check_charge(ended: FinalState) -> Iterator[str]:
    yield from check_no_valid_message_is_parked(ended)
    if ended.rows.get("orders", ORDER):
        yield from expectations.check_order_matches_charges(ended)


def check_right_message(ended: FinalState) -> Iterator[str]:
    yield from check_charge(ended)
    job = ended.job(KEY)
    if job is not None and job.was_claimed and job.message == WRONG:
        yield f"the charged job keeps the message {dict(job.message)}"


def early_scenarios(
    charging: Callable[..., Scenario], pushing: Callable[..., Scenario], wrong_row: JobRow
) -> tuple[Scenario, ...]:
    """The order, the payment or the version arrives at any time, with its own message."""
    payments = stripe(honors_idempotency_keys=False)

    early = {"seed_rows": no_rows, "edit": add_order, "check": check_charge}
    wrong = {
        "jobs": (wrong_row,),
        "wrong_messages": (WRONG,),
        "edit": send_other_messages,
        "check": check_right_message,
    }
    return (
        charging("early", payments, ShortGraceCharge, **early),
        # The order comes before the first sweep, or after the review.
        charging(
            "early-committed",
            payments,
            ShortGraceCharge,
            fixed_prefix="r1:orders.get_item>edit",
            **early,
        ),
        charging("early-reviewed", payments, ShortGraceCharge, fixed_prefix="r2:end>edit", **early),
        charging(
            "early-restored",
            payments,
            ShortGraceCharge,
            fixed_prefix="r2:end>edit",
            restore=RestoreMode.LAGGING,
            **{**early, "duplicate_messages": 1},
        ),
        # The API key is stored after the first message came.
        charging("secret-late", payments, secrets_missing_for=timedelta(minutes=1)),
        charging("wrong-first", payments, **wrong),
        charging(
            "wrong-refused",
            payments,
            fixed_prefix="w1:orders.get_item>edit",
            duplicate_messages=1,
            **wrong,
        ),
        Scenario(
            name="receipt.send/early",
            contracts=(ShortGraceReceipt,),
            message=RECEIPT,
            providers=lambda options: {"ses": SesSandbox(options)},
            count_effects=count_sent,
            seed_rows=lambda rows: rows.put("orders", ORDER, order_row()),
            edit=pay_order,
            check=check_no_valid_receipt_is_parked,
        ),
        pushing(
            "/early",
            contract=ShortGracePush,
            seed_rows=lambda rows: put_record(rows, 6),
            edit=reach_version,
            check=check_push,
        ),
    )


def check_no_valid_receipt_is_parked(ended: FinalState) -> Iterator[str]:
    order = ended.rows.get("orders", ORDER) or {}
    for job in ended.jobs.values():
        if order.get("status") == "paid" and job.awaits_message:
            yield f"{job.job_key} is in review, and its valid message did not run it"


def check_push(ended: FinalState) -> Iterator[str]:
    yield from expectations.check_pushed_version(ended)
    record = ended.rows.get("records", CONTACT) or {}
    for job in ended.jobs.values():
        if record.get("version") == 7 and job.awaits_message:  # the version pushed
            yield f"{job.job_key} is in review, and its valid message did not run it"
