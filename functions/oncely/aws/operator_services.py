"""What operators work with on the command line, over a deployed stack."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncely.app import App
from oncely.aws.clients import AwsClients
from oncely.aws.ports import AwsPorts
from oncely.contract import AnyContract
from oncely.domain.errors import NotConfiguredError
from oncely.enqueue.enqueuer import Enqueuer
from oncely.operate.job_queries import JobQueries
from oncely.operate.repairer import Repairer
from oncely.registry import ContractRegistry
from oncely.settings import Settings, pascal_case, queue_env_var, secret_env_var, table_env_var

if TYPE_CHECKING:
    import boto3


@dataclass(frozen=True, kw_only=True)
class OperatorServices:
    """Reading, repairing and enqueuing, over one stack."""

    job_queries: JobQueries
    repairer: Repairer
    enqueuer: Enqueuer
    clients: AwsClients
    actor: str


def services_for_stack(
    outputs: Mapping[str, str],
    *,
    session: "boto3.Session",
    actor: str,
    contracts: Iterable[type[AnyContract]],
    environ: Mapping[str, str] = os.environ,
) -> OperatorServices:
    """The services of the stack with these outputs; no provider's SDK is loaded before its use."""
    contracts = tuple(contracts)
    settings = Settings.from_env(_environment(outputs, environ, contracts), contracts)
    clients = AwsClients(session)
    app = App(settings, ContractRegistry(contracts), AwsPorts(settings, clients))
    return OperatorServices(
        job_queries=app.job_queries,
        repairer=app.repairer,
        enqueuer=app.enqueuer,
        clients=clients,
        actor=actor,
    )


def _environment(
    outputs: Mapping[str, str], environ: Mapping[str, str], contracts: tuple[type[AnyContract], ...]
) -> dict[str, str]:
    required = {
        table_env_var("jobs"): "JobsTableName",
        "ARCHIVE_BUCKET": "ArchiveBucketName",
        "EVENT_BUS_NAME": "EventBusName",
        "RETENTION_DAYS": "RowRetentionDays",
    }
    optional = {"DUE_SHARDS": "DueShards"}
    addresses = set()
    for contract_type in contracts:
        resources = contract_type.resources
        required[queue_env_var(resources.queue)] = f"{pascal_case(resources.queue)}QueueUrl"
        for name in resources.table_names:
            required[table_env_var(name)] = f"{pascal_case(name)}TableName"
        for name in resources.secret_names:
            required[secret_env_var(name)] = f"{pascal_case(name)}SecretArn"
        for plugin in resources.providers:
            for field in plugin.settings_type.model_fields:
                optional[plugin.env_var(field)] = pascal_case(f"{plugin.name}_{field}")
            addresses.add(plugin.env_var("api_base"))
    if missing := sorted(name for name in required.values() if not outputs.get(name)):
        raise NotConfiguredError(
            f"the stack has no output {', '.join(missing)}: check that it is an Oncely stack, and "
            "run `make deploy` to bring it up to date"
        )
    found = {variable: outputs.get(name) for variable, name in (required | optional).items()}
    # The stack decides everything but where a provider is reached from this machine.
    found |= {name: environ[name] for name in addresses if environ.get(name)}
    return {variable: value for variable, value in found.items() if value}
