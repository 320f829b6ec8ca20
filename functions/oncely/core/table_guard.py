"""Checks the job table at start and every minute: effects need a table that holds the proofs.

A table restored under the same name keeps its workers warm, so a check at start is not enough. A
restore takes longer than a minute.
"""

import threading
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from oncely.core.deployment_identity import DynamoTableIdentity
from oncely.core.errors import OncelyError, UnavailableError
from oncely.core.schedule import Clock
from oncely.core.table_identity import (
    TableBlocked,
    TableFacts,
    TableOpen,
    TableState,
    blocking_reason,
)
from oncely.core.text import format_minute

CHECK_INTERVAL: Final = timedelta(minutes=1)
# TTL and recovery are checked less often: DescribeContinuousBackups is limited to 10 calls per
# second and account. A failed check blocks nothing: a new table is recognized by its id.
PROTECTION_CHECK_INTERVAL: Final = timedelta(minutes=15)
# After a blocked or failed check.
RETRY_AFTER: Final = timedelta(seconds=10)
# DynamoDB's control plane may be down for this long while its tables work.
MAX_UNCHECKED: Final = timedelta(minutes=10)


@dataclass
class TableGuard:
    """The state of the job table, checked once for all threads of a process."""

    inspector: DynamoTableIdentity
    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _state: TableState | None = None
    _next_check: datetime | None = None
    _confirmed_at: datetime | None = None  # when the table was last confirmed
    _protection: TableFacts | None = None
    _protection_at: datetime | None = None

    def check(self) -> TableState:
        """Whether jobs may be claimed now."""
        with self._lock:
            # The wall clock: after a freeze, the last result is old.
            now = self.clock.now()
            if self._state is None or self._next_check is None or now >= self._next_check:
                self._state = self._inspect(now)
                open_ = isinstance(self._state, TableOpen)
                self._next_check = now + (CHECK_INTERVAL if open_ else RETRY_AFTER)
            return self._state

    def _inspect(self, now: datetime) -> TableState:
        try:
            identity, facts = self.inspector.identity(), self.inspector.facts()
        except UnavailableError as error:
            return self._on_unavailable(now, error)
        except OncelyError as error:
            return TableBlocked(f"the job table cannot be checked: {error}")
        reason = blocking_reason(identity, self._with_protection(facts, now), now=now)
        if reason is not None or identity is None:
            return TableBlocked(reason or "")
        self._confirmed_at = now
        return TableOpen(
            deployment=identity.deployment,
            replays_until=identity.replays_until,
            tag_key=identity.tag_key,
        )

    def _on_unavailable(self, now: datetime, error: UnavailableError) -> TableState:
        """Keep the last open state for a while: an outage of the control plane stops no jobs."""
        seen = self._confirmed_at
        if seen is not None and now - seen < MAX_UNCHECKED and isinstance(self._state, TableOpen):
            return self._state
        since = "" if seen is None else f" since {format_minute(seen)}"
        return TableBlocked(f"the job table could not be checked{since}; it is retried: {error}")

    def _with_protection(self, facts: TableFacts, now: datetime) -> TableFacts:
        known, at = self._protection, self._protection_at
        fresh = at is not None and now - at < PROTECTION_CHECK_INTERVAL
        if known is None or known.table_id != facts.table_id or not fresh or known.missing:
            try:
                known = self.inspector.with_protection(facts)
            except OncelyError:
                known = facts  # unknown: checked again next time
            else:
                self._protection_at = now
            self._protection = known
        return replace(facts, has_ttl=known.has_ttl, has_recovery=known.has_recovery)
