"""Background jobs on AWS that run once, however often they are delivered.

Jobs, provider plug-ins and producers import from here; tests also from `oncely.testing`, stacks
from `oncely_cdk`. A name is imported on its first use, so a producer loads no worker code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from oncely.app import App as App
    from oncely.contract import AlreadyResolved as AlreadyResolved
    from oncely.contract import AnyContract as AnyContract
    from oncely.contract import Contract as Contract
    from oncely.contract import EffectCall as EffectCall
    from oncely.contract import Mismatch as Mismatch
    from oncely.contract import NotThereYet as NotThereYet
    from oncely.contract import PrecheckResult as PrecheckResult
    from oncely.contract import Proceed as Proceed
    from oncely.domain.contract_description import Description as Description
    from oncely.domain.effect_outcomes import Ambiguous as Ambiguous
    from oncely.domain.effect_outcomes import Anomalous as Anomalous
    from oncely.domain.effect_outcomes import BusinessWrite as BusinessWrite
    from oncely.domain.effect_outcomes import Declined as Declined
    from oncely.domain.effect_outcomes import EffectOutcome as EffectOutcome
    from oncely.domain.effect_outcomes import InProgress as InProgress
    from oncely.domain.effect_outcomes import Json as Json
    from oncely.domain.effect_outcomes import LookupFailed as LookupFailed
    from oncely.domain.effect_outcomes import LookupUnsupported as LookupUnsupported
    from oncely.domain.effect_outcomes import NotFound as NotFound
    from oncely.domain.effect_outcomes import NotSent as NotSent
    from oncely.domain.effect_outcomes import Pending as Pending
    from oncely.domain.effect_outcomes import Precondition as Precondition
    from oncely.domain.effect_outcomes import Prepared as Prepared
    from oncely.domain.effect_outcomes import Reserved as Reserved
    from oncely.domain.effect_outcomes import StillOpen as StillOpen
    from oncely.domain.effect_outcomes import Succeeded as Succeeded
    from oncely.domain.erasure import DataOwner as DataOwner
    from oncely.domain.erasure import RecordEraser as RecordEraser
    from oncely.domain.errors import GateClosedError as GateClosedError
    from oncely.domain.errors import InvalidMessageError as InvalidMessageError
    from oncely.domain.errors import InvalidMoneyError as InvalidMoneyError
    from oncely.domain.errors import NotConfiguredError as NotConfiguredError
    from oncely.domain.errors import OncelyError as OncelyError
    from oncely.domain.errors import UnavailableError as UnavailableError
    from oncely.domain.gate import EndpointGroup as EndpointGroup
    from oncely.domain.gate import RateLimit as RateLimit
    from oncely.domain.gate import shared_limit as shared_limit
    from oncely.domain.jobs import JobRow as JobRow
    from oncely.domain.keys import MAX_ID_LENGTH as MAX_ID_LENGTH
    from oncely.domain.keys import IdempotencyKey as IdempotencyKey
    from oncely.domain.keys import JobKey as JobKey
    from oncely.domain.keys import job_key as job_key
    from oncely.domain.lifecycle import Status as Status
    from oncely.domain.money import Money as Money
    from oncely.domain.profiles import ProviderProfile as ProviderProfile
    from oncely.domain.profiles import RetryLimits as RetryLimits
    from oncely.domain.profiles import RetryPolicy as RetryPolicy
    from oncely.domain.profiles import RetrySafety as RetrySafety
    from oncely.domain.proofs import proved_outcome as proved_outcome
    from oncely.domain.text import format_time as format_time
    from oncely.domain.text import parse_time as parse_time
    from oncely.enqueue.enqueuer import Enqueuer as Enqueuer
    from oncely.enqueue.enqueuer import EnqueueResult as EnqueueResult
    from oncely.enqueue.enqueuer import JobState as JobState
    from oncely.health import Finding as Finding
    from oncely.health import failed as failed
    from oncely.health import passed as passed
    from oncely.health import warned as warned
    from oncely.http.request_gate import RequestGate as RequestGate
    from oncely.job_settings import JobSettings as JobSettings
    from oncely.message import MAX_MESSAGE_BYTES as MAX_MESSAGE_BYTES
    from oncely.message import Message as Message
    from oncely.message import encode_message as encode_message
    from oncely.own_function import worker as worker
    from oncely.ports import BusinessTable as BusinessTable
    from oncely.ports import Dependencies as Dependencies
    from oncely.ports import MessageSender as MessageSender
    from oncely.producer import create_producer as create_producer
    from oncely.provider import ApiKeyCheck as ApiKeyCheck
    from oncely.provider import IamGrant as IamGrant
    from oncely.provider import Provider as Provider
    from oncely.provider import ProviderAccess as ProviderAccess
    from oncely.provider import ProviderSettings as ProviderSettings
    from oncely.registry import ContractRegistry as ContractRegistry
    from oncely.resources import Resources as Resources
    from oncely.table_schema import Column as Column
    from oncely.table_schema import ColumnType as ColumnType
    from oncely.table_schema import IndexSchema as IndexSchema
    from oncely.table_schema import KeySchema as KeySchema
    from oncely.table_schema import TableSchema as TableSchema

_PUBLIC_NAMES: Final = {
    "oncely.app": "App",
    "oncely.contract": (
        "AlreadyResolved AnyContract Contract EffectCall Mismatch NotThereYet PrecheckResult "
        "Proceed"
    ),
    "oncely.domain.contract_description": "Description",
    "oncely.domain.effect_outcomes": (
        "Ambiguous Anomalous BusinessWrite Declined EffectOutcome InProgress Json LookupFailed "
        "LookupUnsupported NotFound NotSent Pending Precondition Prepared Reserved "
        "StillOpen Succeeded"
    ),
    "oncely.domain.erasure": "DataOwner RecordEraser",
    "oncely.domain.errors": (
        "GateClosedError InvalidMessageError InvalidMoneyError NotConfiguredError OncelyError "
        "UnavailableError"
    ),
    "oncely.domain.gate": "EndpointGroup RateLimit shared_limit",
    "oncely.domain.jobs": "JobRow",
    "oncely.domain.keys": "IdempotencyKey JobKey MAX_ID_LENGTH job_key",
    "oncely.domain.lifecycle": "Status",
    "oncely.domain.money": "Money",
    "oncely.domain.profiles": "ProviderProfile RetryLimits RetryPolicy RetrySafety",
    "oncely.domain.proofs": "proved_outcome",
    "oncely.domain.text": "format_time parse_time",
    "oncely.enqueue.enqueuer": "EnqueueResult Enqueuer JobState",
    "oncely.http.request_gate": "RequestGate",
    "oncely.job_settings": "JobSettings",
    "oncely.message": "MAX_MESSAGE_BYTES Message encode_message",
    "oncely.own_function": "worker",
    "oncely.ports": "BusinessTable Dependencies MessageSender",
    "oncely.producer": "create_producer",
    "oncely.provider": "ApiKeyCheck IamGrant Provider ProviderAccess ProviderSettings",
    "oncely.registry": "ContractRegistry",
    "oncely.resources": "Resources",
    "oncely.health": "Finding failed passed warned",
    "oncely.table_schema": "Column ColumnType IndexSchema KeySchema TableSchema",
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
