"""A Stripe on this machine, for tests and for the demo."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from infra.local.sandbox.faults import Faults
from infra.local.sandbox.keys import WINDOW
from infra.local.sandbox.ledger import Ledger, PaymentIntent
from infra.local.sandbox.messages import Clock, now
from infra.local.sandbox.server import Sandbox
from infra.local.sandbox.stripe_api import StripeApi
from infra.local.sandbox.stripe_shapes import intent_body


class StripeSandbox(Sandbox):
    """`with StripeSandbox() as sandbox:` and point a client at `sandbox.url`."""

    def __init__(
        self,
        *,
        port: int = 0,
        clock: Clock = now,
        honours_keys: bool = True,
        key_window: timedelta = WINDOW,
        search_lag: timedelta = timedelta(0),
        seed: int = 0,
    ) -> None:
        ledger = Ledger()
        self._stripe = StripeApi(
            ledger,
            clock,
            honours_keys=honours_keys,
            key_window=key_window,
            search_lag=search_lag,
        )
        super().__init__(
            [self._stripe],
            ledger=ledger,
            faults=Faults(seed=seed),
            port=port,
            clock=clock,
            actions={"settle": self._settle},
        )

    def settle(self, intent_id: str, *, succeeded: bool) -> PaymentIntent:
        """End an intent that is processing, or waiting for its customer."""
        return self._stripe.settle(intent_id, succeeded=succeeded)

    def _settle(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return intent_body(self.settle(params["intent_id"], succeeded=params["succeeded"]))
