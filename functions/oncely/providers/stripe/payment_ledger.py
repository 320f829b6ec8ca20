"""Stripe's own list of charges, refunds and disputes, each with the metadata of its intent."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import stripe

from oncely.core.effect_outcomes import LookupFailed
from oncely.core.money import Money
from oncely.plugins.ledger import EntryKind, EntryState, LedgerEntry, LedgerPage, PaymentOwner
from oncely.providers.stripe.responses import describe_error, is_definitive, metadata_owner

_PAGE_SIZE: Final = 100
# Few email addresses have more customers.
MAX_CUSTOMERS: Final = 5
_ID: Final = re.compile(r"(pi|ch|py|re|pyr|dp|du|cus)_\w{1,100}", re.ASCII)
_EMAIL: Final = re.compile(r"[^@\s]{1,64}@[^@\s]{1,200}")
# Of charges and refunds. Those that are pending or require an action may still do either.
_STATES: Final = {
    "succeeded": EntryState.MOVED,
    **dict.fromkeys(("failed", "canceled"), EntryState.FAILED),
}


@dataclass(frozen=True)
class StripePaymentLedger:
    """Lists are as fresh as reads, the newest first."""

    client: stripe.StripeClient

    def list_entries(
        self, kind: EntryKind, *, since: datetime, until: datetime, after: str | None
    ) -> LedgerPage | LookupFailed:
        # Stripe's times are whole seconds.
        created = {"gte": int(since.timestamp()), "lt": int(until.timestamp())}
        request: dict[str, Any] = {
            "created": created,
            "limit": _PAGE_SIZE,
            "expand": ["data.payment_intent"],
        }
        if after is not None:
            request["starting_after"] = after
        try:
            page = self._list(kind)(request)
        except stripe.StripeError as error:
            return LookupFailed(f"listing {kind}s failed: {describe_error(error)}")
        last = page.data[-1] if page.data else None
        return LedgerPage(
            entries=tuple(_entries(kind, page.data)),
            after=last.id if last is not None and page.has_more else None,
            reached=since if last is None else _time(last),
        )

    def find_charge(self, ref: str) -> LedgerEntry | LookupFailed | None:
        if (found := _ID.fullmatch(ref)) is None:
            return None
        try:
            if found[1] == "pi":
                intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
                charge = intent.latest_charge
            else:
                charge = self.client.v1.charges.retrieve(ref, {"expand": ["payment_intent"]})
                intent = charge.payment_intent  # type: ignore[assignment]  # expanded
        except stripe.StripeError as error:
            if is_definitive(error):
                return None  # no such payment
            return LookupFailed(f"reading {ref} failed: {describe_error(error)}")
        if not isinstance(charge, stripe.Charge) or charge.status not in _STATES:
            return None
        return _entry(EntryKind.CHARGE, charge, intent)

    def find_refund(self, ref: str) -> LedgerEntry | LookupFailed | None:
        try:
            refund = self.client.v1.refunds.retrieve(ref, {"expand": ["payment_intent"]})
        except stripe.StripeError as error:
            if is_definitive(error):
                return None  # there is no such refund
            return LookupFailed(f"reading {ref} failed: {describe_error(error)}")
        return next(_entries(EntryKind.REFUND, [refund]), None)

    def find_owners(self, text: str) -> tuple[PaymentOwner, ...] | LookupFailed | None:
        try:
            if _EMAIL.fullmatch(text):
                customers = self.client.v1.customers.list({"email": text, "limit": MAX_CUSTOMERS})
                ids = [one.id for one in customers.data]
                return tuple(owner for one in ids for owner in self._owners_of_customer(one))
            if (found := _ID.fullmatch(text)) is None:
                return None
            return self._owners(found[1], text)
        except stripe.StripeError as error:
            if is_definitive(error):
                return ()
            return LookupFailed(f"reading {text} failed: {describe_error(error)}")

    def _owners(self, prefix: str, text: str) -> tuple[PaymentOwner, ...]:
        api, expand = self.client.v1, {"expand": ["payment_intent"]}
        match prefix:
            case "cus":
                return self._owners_of_customer(text)
            case "pi":
                return (_owner(api.payment_intents.retrieve(text)),)
            case "ch" | "py":
                return (_owner(api.charges.retrieve(text, expand).payment_intent),)  # type: ignore[arg-type]  # as above
            case "re" | "pyr":
                return (_owner(api.refunds.retrieve(text, expand).payment_intent),)  # type: ignore[arg-type]  # as above
            case _:
                return (_owner(api.disputes.retrieve(text, expand).payment_intent),)  # type: ignore[arg-type]  # as above

    def _owners_of_customer(self, customer: str) -> tuple[PaymentOwner, ...]:
        page = self.client.v1.payment_intents.list({"customer": customer, "limit": _PAGE_SIZE})
        return tuple(_owner(one) for one in page.data)

    def job_label(self, job_key: str) -> str:
        return job_key

    def _list(self, kind: EntryKind) -> Any:  # noqa: ANN401  # each list has its own types
        match kind:
            case EntryKind.CHARGE:
                return self.client.v1.charges.list
            case EntryKind.REFUND:
                return self.client.v1.refunds.list
            case EntryKind.DISPUTE:
                return self.client.v1.disputes.list


def _entries(kind: EntryKind, objects: list[Any]) -> Iterator[LedgerEntry]:
    for one in objects:
        if kind is EntryKind.DISPUTE or one.status in _STATES:
            yield _entry(kind, one, one.payment_intent)


def _entry(kind: EntryKind, one: Any, intent: Any) -> LedgerEntry:  # noqa: ANN401  # three types
    captured = getattr(one, "amount_captured", None) if kind is EntryKind.CHARGE else None
    deployment, job_key = metadata_owner(intent)
    if kind is EntryKind.REFUND and metadata_owner(one)[1] is not None:
        deployment, job_key = metadata_owner(one)  # our own refund has its job in the metadata
    return LedgerEntry(
        kind=kind,
        entry_id=one.id,
        ref=getattr(intent, "id", intent),
        money=Money(one.amount if captured is None else captured, one.currency),
        at=_time(one),
        state=EntryState.MOVED if kind is EntryKind.DISPUTE else _STATES[one.status],
        deployment=deployment,
        job_label=job_key,
    )


def _owner(intent: Any) -> PaymentOwner:  # noqa: ANN401  # or None, of a charge without one
    deployment, job_key = metadata_owner(intent)
    return PaymentOwner(deployment=deployment, job_label=job_key, ref=getattr(intent, "id", None))


def _time(one: Any) -> datetime:  # noqa: ANN401  # any of Stripe's objects
    return datetime.fromtimestamp(one.created, UTC)
