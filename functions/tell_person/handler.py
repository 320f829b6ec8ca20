"""Lambda: the step of the reconciler that tells a person of one job; of two at once, one does."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.wiring import wire_teller
from oncely.domain.errors import UnavailableError
from oncely.domain.keys import JobKey
from oncely.lambda_init import once
from oncely.services.reconcile import GONE
from oncely.services.tell import Teller, Telling
from oncely.settings import TellerSettings
from oncely.telemetry import observed, telemetry


@once
def teller() -> Teller:
    """Wire once per execution environment."""
    return wire_teller(TellerSettings.from_env(os.environ))


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Tell of an item that the step before says is owed an alert; add what came of it."""
    key = JobKey(event["key"])
    telling = _gone(key, event["reason"]) if event["outcome"] == GONE else teller().tell(key)
    telemetry().told_of(key, telling)
    return {**event, "alert": str(telling)}


def _gone(key: JobKey, answer: str) -> Telling:
    if not teller().gone(key, answer):
        # No row stays due for it: the state machine tries again, and says so if that fails too.
        raise UnavailableError(f"nobody could be told that {key} has no row: {answer}")
    return Telling.TOLD
