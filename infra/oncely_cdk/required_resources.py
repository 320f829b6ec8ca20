"""The queues, tables, secrets and providers that the contracts require."""

from collections.abc import Iterable
from dataclasses import dataclass

from oncely.contract import AnyContract, Resources
from oncely.provider import AnyProvider
from oncely.table_schema import TableSchema


@dataclass(frozen=True)
class RequiredResources:
    """The requirements of several contracts; each name once, sorted."""

    contracts: tuple[type[AnyContract], ...]

    def for_queue(self, queue: str) -> "RequiredResources":
        return RequiredResources(
            tuple(one for one in self.contracts if one.resources.queue == queue)
        )

    def detecting_missing_jobs(self) -> "RequiredResources":
        return RequiredResources(tuple(one for one in self.contracts if one.detects_missing_jobs()))

    @property
    def queues(self) -> tuple[str, ...]:
        return _sorted_unique(one.queue for one in self._resources)

    @property
    def tables(self) -> tuple[str, ...]:
        return _sorted_unique(name for one in self._resources for name in one.table_names)

    @property
    def table_schemas(self) -> dict[str, TableSchema]:
        tables = (table for one in self._resources for table in one.tables)
        return {table.name: table for table in tables if not isinstance(table, str)}

    @property
    def secrets(self) -> tuple[str, ...]:
        return _sorted_unique(name for one in self._resources for name in one.secret_names)

    @property
    def sends_to(self) -> tuple[str, ...]:
        return _sorted_unique(name for one in self._resources for name in one.sends_to)

    @property
    def providers(self) -> tuple[AnyProvider, ...]:
        found = {plugin.name: plugin for one in self._resources for plugin in one.providers}
        return tuple(found[name] for name in sorted(found))

    @property
    def publishes_events(self) -> bool:
        return any(one.publishes_events for one in self.contracts)

    @property
    def _resources(self) -> tuple[Resources, ...]:
        return tuple(one.resources for one in self.contracts)


def _sorted_unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
