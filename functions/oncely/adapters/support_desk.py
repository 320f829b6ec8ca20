"""What support and operators work with, wired from a stack's outputs: for the command line."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncely.adapters.clients import Clients
from oncely.adapters.due_index import DynamoDueIndex
from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.adapters.dynamodb_windows import DynamoWindows
from oncely.adapters.history_reader import FinishedFromHistory, S3HistoryReader
from oncely.adapters.job_finder import DynamoJobFinder
from oncely.adapters.system import SystemClock, new_token
from oncely.adapters.toolbox import Toolbox
from oncely.adapters.wiring import wire_reconciler
from oncely.contract import AnyContract
from oncely.contracts import CONTRACTS
from oncely.domain.errors import NotConfiguredError
from oncely.registry import Registry
from oncely.services.enqueue import Enqueuer
from oncely.services.inspect import Inspector
from oncely.services.reconcile import Reconciler
from oncely.services.repair import Repairer
from oncely.settings import (
    ReaderSettings,
    ResolverSettings,
    camel,
    queue_variable,
    secret_variable,
    table_variable,
)

if TYPE_CHECKING:
    import boto3

_PROVIDERS = ("STRIPE_API_BASE", "HUBSPOT_API_BASE", "HUBSPOT_ID_PROPERTY")


@dataclass(frozen=True, kw_only=True)
class SupportDesk:
    """Reading, repairing and sending, over one stack."""

    inspector: Inspector
    repairer: Repairer
    enqueuer: Enqueuer
    clients: Clients
    actor: str = ""  # whose command this is; a page's request names its own


def support_desk(
    outputs: Mapping[str, str],
    *,
    session: "boto3.Session",
    actor: str,
    environ: Mapping[str, str] = os.environ,
    contracts: Iterable[type[AnyContract]] = CONTRACTS,
) -> SupportDesk:
    """A desk over the stack with these outputs; no provider's SDK is loaded before it is asked."""
    contracts = tuple(contracts)
    settings = ResolverSettings.from_env(_variables(outputs, environ, contracts), contracts)
    clients = Clients(session)
    return desk(settings, contracts, clients=clients, actor=actor)


def desk(
    settings: ResolverSettings,
    contracts: Iterable[type[AnyContract]],
    *,
    clients: Clients,
    actor: str = "",
) -> SupportDesk:
    """The same over settings, as a function has them."""
    reconciler = wire_reconciler(settings, contracts, clients=clients)
    enqueuer = _enqueuer(settings, reconciler, clients)
    return SupportDesk(
        inspector=inspector(settings, contracts, clients=clients),
        repairer=Repairer(reconciler=reconciler, enqueuer=enqueuer),
        enqueuer=enqueuer,
        clients=clients,
        actor=actor,
    )


def inspector(
    settings: ReaderSettings | ResolverSettings,
    contracts: Iterable[type[AnyContract]],
    *,
    clients: Clients,
) -> Inspector:
    """Reading only."""
    jobs_table = settings.jobs_table
    finder = DynamoJobFinder(clients.dynamodb, jobs_table)
    return Inspector(
        registry=Registry(contracts),
        store=DynamoJobStore(client=clients.dynamodb, table=jobs_table, tables={}),
        finder=finder,
        index=DynamoDueIndex(clients.dynamodb, jobs_table, settings.due_shards),
        finished=FinishedFromHistory(S3HistoryReader(clients.s3, settings.archive_bucket)),
        clock=SystemClock(),
    )


def _enqueuer(settings: ResolverSettings, reconciler: Reconciler, clients: Clients) -> Enqueuer:
    jobs = Toolbox(settings, clients).jobs()
    return Enqueuer(
        registry=reconciler.registry,
        store=jobs,
        windows=DynamoWindows(clients.dynamodb, jobs),
        outbox=reconciler.outbox,
        clock=reconciler.clock,
        new_token=new_token,
    )


def _variables(
    outputs: Mapping[str, str],
    environ: Mapping[str, str],
    contracts: tuple[type[AnyContract], ...],
) -> dict[str, str]:
    """A stack's outputs under the names that a function's environment has for them."""
    wanted: dict[str, str] = {
        table_variable("jobs"): "JobsTableName",
        "ARCHIVE_BUCKET": "ArchiveBucketName",
        "EVENT_BUS_NAME": "EventBusName",
        "RETENTION_DAYS": "RowRetentionDays",
    }
    for kind in contracts:
        needs = kind.needs
        wanted[queue_variable(needs.queue)] = f"{camel(needs.queue)}QueueUrl"
        wanted |= {table_variable(name): f"{camel(name)}TableName" for name in needs.tables}
        wanted |= {secret_variable(name): f"{camel(name)}SecretArn" for name in needs.secrets}
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
        **{name: environ[name] for name in _PROVIDERS if environ.get(name)},
    }
    known: dict[str, Any] = {variable: outputs[name] for variable, name in wanted.items()}
    return {**known, **{name: value for name, value in providers.items() if value}}
