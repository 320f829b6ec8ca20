"""Braintree in this process: the shipped client over the model, in the words of the tests."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import count

from oncely.core.money import Money
from oncely.plugins.provider import ProviderAccess
from oncely.providers.braintree import BRAINTREE
from oncely.providers.braintree.payments import BraintreePayments
from oncely.providers.braintree.plugin import BraintreeSettings
from oncely.providers.braintree.sandbox import BraintreeSandbox, RecordedTransaction
from oncely.testing.in_process import InProcessSandbox, base_url
from oncely.testing.sandbox import SandboxOptions

# The statuses of tests that are of any provider.
STATUSES = {"succeeded": "settled", "canceled": "voided"}


class BraintreeAccount:
    """A merchant of Braintree."""

    def __init__(self, *, now: Callable[[], datetime]) -> None:
        numbers = count(1)
        options = SandboxOptions(clock=now, new_id=lambda prefix: f"{prefix}_{next(numbers)}")
        self.sandbox = InProcessSandbox([BRAINTREE], options=options)
        model = self.sandbox.providers["braintree"]
        assert isinstance(model, BraintreeSandbox)
        self.model = model
        self.settings = BraintreeSettings.model_validate(
            {**model.settings, "api_base": base_url("braintree")}
        )
        access = ProviderAccess(
            settings=self.settings, api_key=model.api_key, network=self.sandbox.network
        )
        client = BRAINTREE.connect(access)
        assert isinstance(client, BraintreePayments)
        self.client = client

    @property
    def refs(self) -> list[str]:
        """The sales, the oldest first."""
        sales = (one for one in self.model.ledger.transactions if one.type == "sale")
        return [one.transaction_id for one in sales]

    def status(self, ref: str) -> str:
        return self._transaction(ref).status

    @property
    def declines(self) -> bool:
        return self.model.acts_as is not None

    @declines.setter
    def declines(self, declines: bool) -> None:
        self.model.acts_as = self.model.samples["declined"] if declines else None

    def complete(self, ref: str, *, status: str) -> str:
        """Give a transaction this status, whether Braintree's rules allow it or not.

        Returns its id, or that of the refund or the dispute.
        """
        match status:
            case "refunded":
                self.model.refund(ref)
                return self._transaction(ref).refund_ids[-1]
            case "disputed":
                self.model.dispute(ref)
                return self._transaction(ref).disputes[-1][0]
            case _:
                self.model.set_status(ref, STATUSES[status])
                return ref

    def change(self, ref: str, *, money: Money) -> None:
        self.model.ledger.save(replace(self._transaction(ref), money=money))

    def plant(self, ref: str, *, job_key: object = None) -> str:
        """Add a charge like this one, which no worker made."""
        one, new = self._transaction(ref), self.model.options.new_id("bt")
        deployment, _, label = one.order_id.partition(":")
        order_id = f"{deployment}:{job_key or label}"
        self.model.ledger.save(replace(one, transaction_id=new, order_id=order_id))
        return new

    def _transaction(self, ref: str) -> RecordedTransaction:
        found = self.model.ledger.find(RecordedTransaction, ref)
        assert found is not None
        return found
