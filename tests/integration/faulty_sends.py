"""What each fault of the sandbox makes of one send: the answer that is due, and what was done."""

from typing import Final

from infra.local.sandbox import FaultKind
from oncely.domain.answers import NotSent, Unclear

FAULTY_SENDS: Final = (
    # Not performed, and the provider says so.
    (FaultKind.RATE_LIMIT, NotSent, 0),
    (FaultKind.UNAUTHORIZED, NotSent, 0),
    # Performed, and the answer does not tell.
    (FaultKind.ACCEPT_THEN_HANG, Unclear, 1),
    (FaultKind.ACCEPT_THEN_DROP, Unclear, 1),
    (FaultKind.ERROR_AFTER, Unclear, 1),
    (FaultKind.GARBLED, Unclear, 1),
    (FaultKind.TRUNCATED, Unclear, 1),
    # Not performed, and the answer does not tell that either.
    (FaultKind.ERROR_BEFORE, Unclear, 0),
    (FaultKind.DROP_BEFORE, Unclear, 0),
    (FaultKind.CONFLICT, Unclear, 0),
    (FaultKind.OUTAGE, Unclear, 0),
)
