"""Finds jobs by ids that only the provider has, through the metadata of its objects."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncely.contracts.contract import providers_of
from oncely.core.effect_outcomes import LookupFailed
from oncely.core.errors import InvalidRequestError, OncelyError
from oncely.core.keys import MAX_KEY_LENGTH, JobKey, is_job_type
from oncely.core.text import support_line
from oncely.operate.job_queries import MAX_SEARCH_RESULTS, SearchResults
from oncely.plugins.ledger import HasLedger, PaymentOwner
from oncely.plugins.provider import AnyProvider

if TYPE_CHECKING:
    from oncely.app import App

_NOT_ASKED: Final = (
    "No job has this id in its row, and it is not an id or email that a payment provider knows."
)


@dataclass(frozen=True)
class ProviderSearch:
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
