"""The environment of a stack's functions, from its outputs: a command has the same settings."""

from collections.abc import Mapping
from typing import Final

from oncely.contracts.job import AnyJob
from oncely.contracts.settings import (
    EXISTING_TABLES_ENV_VAR,
    EXISTING_TABLES_OUTPUT,
    RESUBMISSION_SETTINGS,
    columns_env_var,
    job_setting_output,
    pascal_case,
    queue_env_var,
    secret_env_var,
    table_env_var,
)
from oncely.core.errors import NotConfiguredError
from oncely.plugins.provider import AnyProvider, ProviderSettings

_SECRET_ARN: Final = "SecretArn"  # noqa: S105  # the end of an output's name


def stack_environment(
    outputs: Mapping[str, str], environ: Mapping[str, str], contracts: tuple[type[AnyJob], ...]
) -> dict[str, str]:
    """Return the variables of these outputs. A provider's address may come from `environ`."""
    required = {
        table_env_var("jobs"): "JobsTableName",
        table_env_var("gates"): "GatesTableName",
        "ARCHIVE_BUCKET": "ArchiveBucketName",
        "EVENT_BUS_NAME": "EventBusName",
        "RETENTION_DAYS": "RowRetentionDays",
    }
    optional = {
        "DUE_SHARDS": "DueShards",
        EXISTING_TABLES_ENV_VAR: EXISTING_TABLES_OUTPUT,
        "SECOND_OPERATOR_ABOVE": "SecondOperatorAbove",
        **{name.upper(): pascal_case(name) for name in RESUBMISSION_SETTINGS},
    }
    addresses = set()
    for contract_type in contracts:
        required[queue_env_var(contract_type.queue)] = f"{pascal_case(contract_type.queue)}QueueUrl"
        for name in contract_type.table_names():
            required[table_env_var(name)] = f"{pascal_case(name)}TableName"
            optional[columns_env_var(name)] = f"{pascal_case(name)}Columns"
        used = (
            p
            for p in contract_type.all_providers()
            if p.is_configured(settings_from_outputs(p, outputs))
        )
        for name in contract_type.secret_names(used):
            required[secret_env_var(name)] = f"{pascal_case(name)}{_SECRET_ARN}"
        for plugin in contract_type.all_providers():
            for field in plugin.settings_type.model_fields:
                optional[plugin.env_var(field)] = pascal_case(f"{plugin.name}_{field}")
            addresses.add(plugin.env_var("api_base"))
        own = {} if contract_type.settings is None else contract_type.settings.env_vars()
        optional |= {variable: job_setting_output(field) for field, variable in own.items()}
        addresses |= {variable for variable in own.values() if variable.endswith("API_BASE")}
    if missing := sorted(name for name in required.values() if not outputs.get(name)):
        raise NotConfiguredError(
            f"the stack has no output {', '.join(missing)}: check that it is an Oncely stack, and "
            "deploy it again to bring it up to date"
        )
    found = {variable: outputs.get(name) for variable, name in (required | optional).items()}
    # A command only looks up, so it uses the read-only API key if there is one.
    for variable, name in required.items():
        if name.endswith(_SECRET_ARN):
            read_only = f"{name.removesuffix(_SECRET_ARN)}ReadOnly{_SECRET_ARN}"
            found[variable] = outputs.get(read_only) or found[variable]
    # The stack decides everything except how this machine reaches a provider.
    found |= {name: environ[name] for name in addresses if environ.get(name)}
    return {variable: value for variable, value in found.items() if value}


def settings_from_outputs(plugin: AnyProvider, outputs: Mapping[str, str]) -> ProviderSettings:
    """Parse a provider's settings from the outputs that the constructs write for it."""
    return plugin.read_settings(
        {
            plugin.env_var(field): outputs.get(pascal_case(f"{plugin.name}_{field}"), "")
            for field in plugin.settings_type.model_fields
        }
    )
