"""What support and operators work with, wired from a stack's outputs: for the command line."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncely.aws.clients import AwsClients
from oncely.aws.dependencies import AwsDependencies
from oncely.aws.dynamodb_due_index import DynamoDueIndex
from oncely.aws.dynamodb_job_index import DynamoJobIndex
from oncely.aws.dynamodb_job_store import DynamoJobStore
from oncely.aws.dynamodb_unique_windows import DynamoUniqueWindows
from oncely.aws.s3_history_reader import HistoryFinishedJobs, S3HistoryReader
from oncely.aws.system import SystemClock, new_owner_token
from oncely.aws.wiring import build_reconciler
from oncely.contract import AnyContract
from oncely.domain.errors import NotConfiguredError
from oncely.enqueue.enqueuer import Enqueuer
from oncely.jobs import CONTRACTS
from oncely.operate.job_queries import JobQueries
from oncely.operate.repairer import Repairer
from oncely.reconcile.reconciler import Reconciler
from oncely.registry import ContractRegistry
from oncely.settings import (
    AdminPageSettings,
    ReconcilerSettings,
    pascal_case,
    queue_env_var,
    secret_env_var,
    table_env_var,
)

if TYPE_CHECKING:
    import boto3

_PROVIDER_VARIABLES = ("STRIPE_API_BASE", "HUBSPOT_API_BASE", "HUBSPOT_ID_PROPERTY")


@dataclass(frozen=True, kw_only=True)
class OperatorServices:
    """Reading, repairing and sending, over one stack."""

    job_queries: JobQueries
    repairer: Repairer
    enqueuer: Enqueuer
    clients: AwsClients
    actor: str = ""  # whose command this is; a page's request names its own


def services_for_stack(
    outputs: Mapping[str, str],
    *,
    session: "boto3.Session",
    actor: str,
    environ: Mapping[str, str] = os.environ,
    contracts: Iterable[type[AnyContract]] = CONTRACTS,
) -> OperatorServices:
    """A desk over the stack with these outputs; no provider's SDK is loaded before it is asked."""
    contracts = tuple(contracts)
    settings = ReconcilerSettings.from_env(_environment(outputs, environ, contracts), contracts)
    clients = AwsClients(session)
    return services_from_settings(settings, contracts, clients=clients, actor=actor)


def services_from_settings(
    settings: ReconcilerSettings,
    contracts: Iterable[type[AnyContract]],
    *,
    clients: AwsClients,
    actor: str = "",
) -> OperatorServices:
    """The same over settings, as a function has them."""
    reconciler = build_reconciler(settings, contracts, clients=clients)
    enqueuer = _build_enqueuer(settings, reconciler, clients)
    return OperatorServices(
        job_queries=build_job_queries(settings, contracts, clients=clients),
        repairer=Repairer(reconciler=reconciler, enqueuer=enqueuer),
        enqueuer=enqueuer,
        clients=clients,
        actor=actor,
    )


def build_job_queries(
    settings: AdminPageSettings | ReconcilerSettings,
    contracts: Iterable[type[AnyContract]],
    *,
    clients: AwsClients,
) -> JobQueries:
    """Reading only."""
    jobs_table = settings.jobs_table
    finder = DynamoJobIndex(clients.dynamodb, jobs_table)
    return JobQueries(
        registry=ContractRegistry(contracts),
        store=DynamoJobStore(client=clients.dynamodb, table=jobs_table, tables={}),
        job_index=finder,
        due_index=DynamoDueIndex(clients.dynamodb, jobs_table, settings.due_shards),
        finished_jobs=HistoryFinishedJobs(S3HistoryReader(clients.s3, settings.archive_bucket)),
        clock=SystemClock(),
    )


def _build_enqueuer(
    settings: ReconcilerSettings, reconciler: Reconciler, clients: AwsClients
) -> Enqueuer:
    jobs = AwsDependencies(settings, clients).job_store()
    return Enqueuer(
        registry=reconciler.registry,
        store=jobs,
        windows=DynamoUniqueWindows(clients.dynamodb, jobs),
        sender_for_queue=reconciler.sender_for_queue,
        clock=reconciler.clock,
        new_token=new_owner_token,
    )


def _environment(
    outputs: Mapping[str, str],
    environ: Mapping[str, str],
    contracts: tuple[type[AnyContract], ...],
) -> dict[str, str]:
    """A stack's outputs under the names that a function's environment has for them."""
    wanted: dict[str, str] = {
        table_env_var("jobs"): "JobsTableName",
        "ARCHIVE_BUCKET": "ArchiveBucketName",
        "EVENT_BUS_NAME": "EventBusName",
        "RETENTION_DAYS": "RowRetentionDays",
    }
    for kind in contracts:
        needs = kind.resources
        wanted[queue_env_var(needs.queue)] = f"{pascal_case(needs.queue)}QueueUrl"
        wanted |= {table_env_var(name): f"{pascal_case(name)}TableName" for name in needs.tables}
        wanted |= {secret_env_var(name): f"{pascal_case(name)}SecretArn" for name in needs.secrets}
    missing = sorted(name for name in wanted.values() if not outputs.get(name))
    if missing:
        raise NotConfiguredError(
            f"the stack has no output {', '.join(missing)}: is it an Oncely stack, and deployed "
            "from this version? `make deploy` brings it up to date"
        )
    providers = {
        "DUE_SHARDS": outputs.get("DueShards"),
        "STRIPE_API_BASE": outputs.get("StripeApiBase"),
        "HUBSPOT_API_BASE": outputs.get("HubspotApiBase"),
        # Whether a charge owes a receipt is the stack's to say, not this machine's.
        "SENDER_ADDRESS": outputs.get("SenderAddress"),
        **{name: environ[name] for name in _PROVIDER_VARIABLES if environ.get(name)},
    }
    known: dict[str, Any] = {variable: outputs[name] for variable, name in wanted.items()}
    return {**known, **{name: value for name, value in providers.items() if value}}
