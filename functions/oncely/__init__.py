"""Background jobs on AWS that run once, however often they are delivered.

Jobs, provider plug-ins and producers import from here; tests also from `oncely.testing`, stacks
from `oncely_cdk`. A name is imported on its first use, so a producer loads no worker code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from oncely.contracts.job import Job as Job
    from oncely.contracts.job import JobSettings as JobSettings
    from oncely.contracts.job import Tools as Tools
    from oncely.contracts.message import BusinessId as BusinessId
    from oncely.contracts.table_schema import Column as Column
    from oncely.contracts.table_schema import ColumnType as ColumnType
    from oncely.contracts.table_schema import IndexSchema as IndexSchema
    from oncely.contracts.table_schema import KeySchema as KeySchema
    from oncely.contracts.table_schema import TableSchema as TableSchema
    from oncely.core.effect_outcomes import Ambiguous as Ambiguous
    from oncely.core.effect_outcomes import Anomalous as Anomalous
    from oncely.core.effect_outcomes import BusinessWrite as BusinessWrite
    from oncely.core.effect_outcomes import Declined as Declined
    from oncely.core.effect_outcomes import EffectOutcome as EffectOutcome
    from oncely.core.effect_outcomes import InProgress as InProgress
    from oncely.core.effect_outcomes import Json as Json
    from oncely.core.effect_outcomes import LookupFailed as LookupFailed
    from oncely.core.effect_outcomes import LookupOutcome as LookupOutcome
    from oncely.core.effect_outcomes import LookupUnsupported as LookupUnsupported
    from oncely.core.effect_outcomes import NotFound as NotFound
    from oncely.core.effect_outcomes import NotSent as NotSent
    from oncely.core.effect_outcomes import Pending as Pending
    from oncely.core.effect_outcomes import Precondition as Precondition
    from oncely.core.effect_outcomes import Prepared as Prepared
    from oncely.core.effect_outcomes import Reserved as Reserved
    from oncely.core.effect_outcomes import StillOpen as StillOpen
    from oncely.core.effect_outcomes import Succeeded as Succeeded
    from oncely.core.ended_jobs import DataOwner as DataOwner
    from oncely.core.errors import InvalidInputError as InvalidInputError
    from oncely.core.errors import NotConfiguredError as NotConfiguredError
    from oncely.core.errors import OncelyError as OncelyError
    from oncely.core.errors import UnavailableError as UnavailableError
    from oncely.core.job_row import JobRow as JobRow
    from oncely.core.job_type import AlreadyResolved as AlreadyResolved
    from oncely.core.job_type import Call as Call
    from oncely.core.job_type import Mismatch as Mismatch
    from oncely.core.job_type import NotThereYet as NotThereYet
    from oncely.core.job_type import PrecheckResult as PrecheckResult
    from oncely.core.job_type import Proceed as Proceed
    from oncely.core.keys import JobKey as JobKey
    from oncely.core.keys import job_key as job_key
    from oncely.core.money import Money as Money
    from oncely.core.profiles import ProviderProfile as ProviderProfile
    from oncely.core.text import format_time as format_time
    from oncely.core.text import parse_time as parse_time
    from oncely.enqueue.enqueuer import JobPending as JobPending
    from oncely.enqueue.enqueuer import JobState as JobState
    from oncely.handlers.process_queue import worker as worker
    from oncely.plugins.health import Finding as Finding
    from oncely.plugins.http_provider import HttpProvider as HttpProvider
    from oncely.plugins.provider import ApiKeyCheck as ApiKeyCheck
    from oncely.plugins.provider import IamGrant as IamGrant
    from oncely.plugins.provider import Provider as Provider
    from oncely.plugins.provider import ProviderAccess as ProviderAccess
    from oncely.plugins.provider import ProviderSettings as ProviderSettings
    from oncely.producer import create_producer as create_producer

_PUBLIC_NAMES: Final = {
    "oncely.contracts.job": "Job JobSettings Tools",
    "oncely.contracts.message": "BusinessId",
    "oncely.core.effect_outcomes": (
        "Ambiguous Anomalous BusinessWrite Declined EffectOutcome InProgress Json LookupFailed "
        "LookupOutcome LookupUnsupported NotFound NotSent Pending Precondition Prepared Reserved "
        "StillOpen Succeeded"
    ),
    "oncely.core.ended_jobs": "DataOwner",
    "oncely.core.errors": ("InvalidInputError NotConfiguredError OncelyError UnavailableError"),
    "oncely.core.job_row": "JobRow",
    "oncely.core.job_type": ("AlreadyResolved Call Mismatch NotThereYet PrecheckResult Proceed"),
    "oncely.core.keys": "JobKey job_key",
    "oncely.core.money": "Money",
    "oncely.core.profiles": "ProviderProfile",
    "oncely.core.text": "format_time parse_time",
    "oncely.plugins.http_provider": "HttpProvider",
    "oncely.enqueue.enqueuer": "JobPending JobState",
    "oncely.plugins.provider": ("ApiKeyCheck IamGrant Provider ProviderAccess ProviderSettings"),
    "oncely.handlers.process_queue": "worker",
    "oncely.producer": "create_producer",
    "oncely.plugins.health": "Finding",
    "oncely.contracts.table_schema": "Column ColumnType IndexSchema KeySchema TableSchema",
}
_MODULE_OF: Final = {
    name: module for module, names in _PUBLIC_NAMES.items() for name in names.split()
}
__all__ = tuple(_MODULE_OF)  # one list of names and their modules


def __getattr__(name: str) -> Any:  # noqa: ANN401  # of any type
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULE_OF[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "aws_lambda_powertools":
            raise
        raise ModuleNotFoundError(
            f'a worker needs the package {error.name}: pip install "oncely[worker]"',
            name=error.name,
        ) from error
