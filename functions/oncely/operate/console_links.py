"""Links of a job: to its effect in the provider's console, and to its row in the AWS console."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self
from urllib.parse import quote

from oncely.contracts.job import AnyJob
from oncely.contracts.settings import Settings
from oncely.core.job_row import JobRow
from oncely.plugins.provider import AnyProvider, ProviderSettings

# Fields of results that hold another id of the effect.
_RESULT_IDS: Final = ("charge_id", "refund")
# Other partitions have other console addresses.
_OTHER_PARTITIONS: Final = ("cn-", "us-gov-", "us-iso")


class ConsoleLink(NamedTuple):
    """An id, and where the console of its provider shows it."""

    provider: str
    reference: str
    url: str


@dataclass(frozen=True, kw_only=True)
class ConsoleLinks:
    """Builds links from the settings of providers, and the region and table of this stack."""

    settings: Mapping[str, ProviderSettings] = field(default_factory=dict)
    region: str | None = None
    jobs_table: str | None = None
    is_local: bool = False

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Use the settings of this function or command."""
        return cls(
            settings=settings.providers,
            region=settings.aws_region,
            jobs_table=settings.jobs_table,
            is_local=settings.aws_endpoint_url is not None,
        )

    def of_job(self, job: JobRow, contract_type: type[AnyJob]) -> tuple[ConsoleLink, ...]:
        """The links of a job's provider reference, and of other ids in its result."""
        result = job.result or {}
        references = (job.provider_ref, *(result.get(name) for name in _RESULT_IDS))
        plugins = [
            plugin
            for plugin in contract_type.all_providers()
            if job.provider in {None, plugin.name}
        ]
        known = dict.fromkeys(one for one in references if isinstance(one, str))
        links = (self._first(plugins, one, job.key_scope or "") for one in known)
        return tuple(link for link in links if link is not None)

    def of_plugin(
        self, plugin: AnyProvider, reference: str, *, key_scope: str, is_dispute: bool = False
    ) -> str | None:
        """The URL of one id at one provider. Returns None if its console has none."""
        settings = self.settings.get(plugin.name) or plugin.settings_type()
        return plugin.console_url(
            reference, key_scope=key_scope, settings=settings, is_dispute=is_dispute
        )

    def of_row(self, job_key: str) -> str | None:
        """The URL of the job's row in the AWS console. Returns None for a local stack."""
        region = self.region
        if region is None or self.jobs_table is None or self.is_local:
            return None
        if region.startswith(_OTHER_PARTITIONS):
            return None
        item = f"itemMode=2&pk={quote(job_key, safe='')}&route=ROUTE_ITEM_EXPLORER&sk="
        return (
            f"https://{region}.console.aws.amazon.com/dynamodbv2/home?region={region}"
            f"#edit-item?{item}&table={quote(self.jobs_table, safe='')}"
        )

    def _first(
        self, plugins: list[AnyProvider], reference: str, key_scope: str
    ) -> ConsoleLink | None:
        found: Iterator[ConsoleLink] = (
            ConsoleLink(plugin.profile.name, reference, url)
            for plugin in plugins
            if (url := self.of_plugin(plugin, reference, key_scope=key_scope))
        )
        return next(found, None)


# Of providers whose links need no settings.
NO_SETTINGS: Final = ConsoleLinks()
