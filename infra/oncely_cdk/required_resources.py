"""The queues, tables, secrets and providers that the contracts require."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from oncely.contracts.job import AnyJob, JobSettings, providers_of
from oncely.contracts.job_names import JOBS_ENV_VAR, name_jobs
from oncely.contracts.settings import configured_providers_of
from oncely.contracts.table_schema import TableSchema
from oncely.plugins.provider import AnyProvider


@dataclass(frozen=True)
class RequiredResources:
    """The requirements of several contracts; each name once, sorted."""

    contracts: tuple[type[AnyJob], ...]
    unconfigured: frozenset[str] = frozenset()  # providers that the stage does not use

    def for_queue(self, queue: str) -> "RequiredResources":
        chosen = (one for one in self.contracts if one.queue == queue)
        return replace(self, contracts=tuple(chosen))

    def detecting_missing_jobs(self) -> "RequiredResources":
        chosen = (one for one in self.contracts if one.detects_missing_jobs())
        return replace(self, contracts=tuple(chosen))

    def calling(self, providers: Iterable[AnyProvider]) -> "RequiredResources":
        wanted = {one.name for one in providers}
        chosen = (c for c in self.contracts if wanted & {p.name for p in c.all_providers()})
        return replace(self, contracts=tuple(chosen))

    def taking_money(self) -> "RequiredResources":
        chosen = (one for one in self.contracts if one.takes_money)
        return replace(self, contracts=tuple(chosen))

    def env_vars(self) -> dict[str, str]:
        """Return the names of these contracts for a function, which imports no others."""
        return {JOBS_ENV_VAR: name_jobs(self.contracts)}

    @property
    def queues(self) -> tuple[str, ...]:
        return _sorted_unique(one.queue for one in self.contracts)

    @property
    def job_types(self) -> tuple[str, ...]:
        return _sorted_unique(one.job_type for one in self.contracts)

    @property
    def proving_job_types(self) -> tuple[str, ...]:
        """The job types whose absence counts only after a lookup has found an effect."""
        policies = (
            (one.job_type, policy) for one in self.contracts for policy in one.policies.values()
        )
        return _sorted_unique(
            name for name, policy in policies if policy.must_prove_lookup and policy.can_look_up
        )

    @property
    def tables(self) -> tuple[str, ...]:
        return _sorted_unique(name for one in self.contracts for name in one.table_names())

    @property
    def read_tables(self) -> tuple[str, ...]:
        return _sorted_unique(name for one in self.contracts for name in one.read_table_names())

    @property
    def written_tables(self) -> tuple[str, ...]:
        return _sorted_unique(name for one in self.contracts for name in one.written_table_names())

    @property
    def emptied_tables(self) -> tuple[str, ...]:
        """Tables in which an erasure deletes rows."""
        schemas = self.table_schemas.values()
        return _sorted_unique(one.name for one in schemas if one.erased_by_partition)

    @property
    def redacted_tables(self) -> tuple[str, ...]:
        """Tables in which an erasure changes rows."""
        erasing = (one for one in self.contracts if one.erases_records())
        names = {name for one in erasing for name in one.written_table_names()}
        return _sorted_unique(names - set(self.emptied_tables))

    @property
    def table_schemas(self) -> dict[str, TableSchema]:
        tables = (table for one in self.contracts for table in one.all_tables())
        return {table.name: table for table in tables if not isinstance(table, str)}

    @property
    def default_retention_days(self) -> dict[str, int]:
        """Default retention of the tables whose rows expire, by name."""
        days = {name: schema.retention_days for name, schema in self.table_schemas.items()}
        return {name: default for name, default in sorted(days.items()) if default is not None}

    @property
    def secrets(self) -> tuple[str, ...]:
        used = self.providers
        return _sorted_unique(name for one in self.contracts for name in one.secret_names(used))

    @property
    def signing_secrets(self) -> tuple[str, ...]:
        """The secrets of HTTPS endpoints for events, whether the stage has one or not."""
        return _sorted_unique(p.webhook_secret_name for p in self.providers if p.webhook_header)

    @property
    def sends_to(self) -> tuple[str, ...]:
        return _sorted_unique(name for one in self.contracts for name in one.sends_to)

    @property
    def providers(self) -> tuple[AnyProvider, ...]:
        every = providers_of(self.contracts)
        return tuple(one for one in every if one.name not in self.unconfigured)

    @property
    def configured_providers(self) -> tuple[AnyProvider, ...]:
        return configured_providers_of(self.contracts)

    @property
    def provider_settings(self) -> tuple[str, ...]:
        """The names of the settings of its providers, such as `acme_api_base`."""
        return tuple(
            f"{plugin.name}_{field}"
            for plugin in self.providers
            for field in plugin.settings_type.model_fields
        )

    @property
    def job_settings(self) -> tuple[type[JobSettings], ...]:
        """The settings that the jobs declare, each type once."""
        found = (one.settings for one in self.contracts if one.settings is not None)
        return tuple(dict.fromkeys(found))

    @property
    def publishes_events(self) -> bool:
        return any(one.publishes_events for one in self.contracts)


def _sorted_unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
