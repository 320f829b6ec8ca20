"""What only a provider knows: jobs by its own ids, and what became of one job. Changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from oncely.contracts.job import providers_of
from oncely.core.ask_and_record import lookup_effect
from oncely.core.effect_outcomes import LookupFailed
from oncely.core.errors import InvalidRequestError, OncelyError
from oncely.core.job_row import JobRow
from oncely.core.keys import MAX_KEY_LENGTH, JobKey, is_job_type
from oncely.core.table_guard import TableOpen
from oncely.core.text import support_line
from oncely.operate.job_queries import MAX_SEARCH_RESULTS, SearchResults
from oncely.operate.repair_request import LookupAnswer
from oncely.operate.repairer import lookup_answer
from oncely.plugins.ledger import HasLedger, PaymentOwner
from oncely.plugins.provider import AnyProvider

if TYPE_CHECKING:
    from oncely.app import App

_ALWAYS: Final = datetime.max.replace(tzinfo=UTC)
_NOT_ASKED: Final = (
    "No job has this id in its row, and it is not an id or email that a payment provider knows."
)


@dataclass(frozen=True)
class ProviderQueries:
    """Asks each configured payment provider, with the read-only API key if there is one."""

    app: "App"

    def search(self, text: str) -> SearchResults:
        """Find jobs by an id or a customer's email. The notes say what could not be resolved."""
        query = text.strip()[:MAX_KEY_LENGTH]
        if not query:
            raise InvalidRequestError("nothing to search for: type an id or an email address")
        matches: dict[JobKey, str] = {}
        notes: list[str] = []
        for plugin in self._plugins():
            name = plugin.profile.name
            found = self._owners(plugin, query)
            match found:
                case None:
                    continue
                case str():
                    notes.append(f"{name} could not be asked: {support_line(found)}.")
                case ():
                    notes.append(f"{name} does not know it.")
                case _:
                    keys = dict.fromkeys(self._keys(found))
                    matches |= dict.fromkeys(keys, name)
                    if not keys:
                        notes.append(f"{name} knows it, but it is not a payment of this stack.")
        return self.app.job_queries.by_keys(query, matches, notes=tuple(notes) or (_NOT_ASKED,))

    def _plugins(self) -> Iterator[AnyProvider]:
        paying = [one for one in self.app.registry if one.takes_money]
        return filter(self.app.ports.is_configured, providers_of(paying))

    def _owners(self, plugin: AnyProvider, query: str) -> tuple[PaymentOwner, ...] | str | None:
        """The owners, or why the provider could not be asked."""
        try:
            client = self.app.ports.provider(plugin)
        except OncelyError as error:  # such as a secret that this user may not read
            return str(error)
        if not isinstance(client, HasLedger):
            return None
        found = client.ledger.find_owners(query)
        return found.reason if isinstance(found, LookupFailed) else found

    def _keys(self, owners: tuple[PaymentOwner, ...]) -> Iterator[JobKey]:
        identity = self.app.ports.table_identity.identity()
        ours = [one for one in owners if identity and one.deployment == identity.deployment]
        for one in ours[:MAX_SEARCH_RESULTS]:
            if is_job_type((one.job_label or "").partition(":")[0]):
                yield JobKey(one.job_label or "")
            elif one.ref is not None:  # the label is a digest
                yield from self.app.ports.job_index.by_reference(one.ref, limit=1)

    def look_up(self, key: str) -> LookupAnswer:
        """Return what the provider says about a job now, whatever its status.

        That includes refunds, disputes and second charges.
        """
        row = self.app.ports.job_store().get(JobKey(key))
        if row is None:
            raise InvalidRequestError(f"no job {key[:200]!r}: search by order or customer")
        contract = self.app.registry.parse_row(row).with_tools(self.app.ports, row.provider)
        outcome = lookup_effect(row, contract, self._table(row)).outcome
        return lookup_answer(contract.policy.profile.name, outcome)

    def _table(self, row: JobRow) -> TableOpen:
        """The job table. If it cannot be checked, a restore may have lost what the job did."""
        table = self.app.ports.table_guard.check()
        if isinstance(table, TableOpen):
            return table
        return TableOpen(deployment=row.deployment, replays_until=_ALWAYS)
