"""Asks the provider about one job, whatever its status. Changes nothing."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from oncely.core.ask_and_record import lookup_effect
from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.table_guard import TableOpen
from oncely.operate.repair_request import LookupAnswer
from oncely.operate.repairer import lookup_answer

if TYPE_CHECKING:
    from oncely.app import App

_ALWAYS: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class VerdictLookup:
    """Looks up the facts of a verdict, including refunds, disputes and second charges."""

    app: "App"

    def look_up(self, key: str) -> LookupAnswer:
        """Return what the provider says now."""
        row = self.app.ports.job_store().get(JobKey(key))
        if row is None:
            raise InvalidRequestError(f"no job {key[:200]!r}: search by order or customer")
        contract_type, message = self.app.registry.parse_row(row)
        contract = contract_type(self.app.ports, row.provider)
        outcome = lookup_effect(row, contract, message, self._table(row)).outcome
        return lookup_answer(contract.policy.profile.name, outcome)

    def _table(self, row: JobRow) -> TableOpen:
        """The job table. If it cannot be checked, a restore may have lost what the job did."""
        table = self.app.ports.table_guard.check()
        if isinstance(table, TableOpen):
            return table
        return TableOpen(deployment=row.deployment, replays_until=_ALWAYS)
