"""AWS clients of one execution environment: all but one made once, by the first thread."""

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import botocore.session
from botocore.config import Config

from oncely.aws.client_config import DYNAMODB, MESSAGING

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_stepfunctions import SFNClient


class _Session:
    """What is used of boto3's session, without boto3, whose import brings S3's transfers along."""

    def __init__(self) -> None:
        self._session = botocore.session.Session()

    def client(self, service: str, *, config: Config) -> Any:  # noqa: ANN401  # of any service
        return self._session.create_client(service, config=config)


class AwsClients:
    """Made on first use; a session is not safe to make two clients from at once."""

    def __init__(self, session: "boto3.Session | None" = None) -> None:
        self._session = session or cast("boto3.Session", _Session())
        self._lock = threading.RLock()

    @cached_property
    def dynamodb(self) -> "DynamoDBClient":
        with self._lock:
            return self._session.client("dynamodb", config=DYNAMODB)

    @cached_property
    def sqs(self) -> "SQSClient":
        with self._lock:
            return self._session.client("sqs", config=MESSAGING)

    @cached_property
    def sns(self) -> "SNSClient":
        with self._lock:
            return self._session.client("sns", config=MESSAGING)

    @cached_property
    def s3(self) -> "S3Client":
        with self._lock:
            return self._session.client("s3", config=MESSAGING)

    @cached_property
    def events(self) -> "EventBridgeClient":
        with self._lock:
            return self._session.client("events", config=MESSAGING)

    @cached_property
    def secrets(self) -> "SecretsManagerClient":
        with self._lock:
            return self._session.client("secretsmanager", config=MESSAGING)

    @cached_property
    def states(self) -> "SFNClient":
        with self._lock:
            return self._session.client("stepfunctions", config=MESSAGING)

    def new_client(self, service: str, config: Config) -> Any:  # noqa: ANN401  # of any service
        """A client of its own, for a provider that is an AWS service."""
        with self._lock:
            return self._session.client(service, config=config)  # type: ignore[call-overload]  # by name
