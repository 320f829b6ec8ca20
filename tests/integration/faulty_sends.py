"""The expected outcome of one send under each fault of the sandbox, and what really happened."""

from typing import Final

from oncely.core.effect_outcomes import Ambiguous, NotSent
from oncely.testing.sandbox import FaultKind

FAULTY_SENDS: Final = (
    # Not performed, and the provider says so.
    (FaultKind.RATE_LIMIT, NotSent, 0),
    (FaultKind.UNAUTHORIZED, NotSent, 0),
    # Performed, and the response does not show it.
    (FaultKind.ACCEPT_THEN_HANG, Ambiguous, 1),
    (FaultKind.ACCEPT_THEN_DROP, Ambiguous, 1),
    (FaultKind.ERROR_AFTER, Ambiguous, 1),
    (FaultKind.GARBLED, Ambiguous, 1),
    (FaultKind.TRUNCATED, Ambiguous, 1),
    # Not performed, and the response does not show it.
    (FaultKind.ERROR_BEFORE, Ambiguous, 0),
    (FaultKind.DROP_BEFORE, Ambiguous, 0),
    (FaultKind.CONFLICT, Ambiguous, 0),
    (FaultKind.OUTAGE, Ambiguous, 0),
)
