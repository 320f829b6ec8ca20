"""AWS clients of one execution environment: all but one made once, by the first thread."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from oncely.core.aws_errors import OVER_CAPACITY_CODES

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cognito_idp import CognitoIdentityProviderClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_stepfunctions import SFNClient


@dataclass
class ThrottleCount:
    """The throttled requests since they were last reported."""

    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self) -> None:
        """Count one request."""
        with self._lock:
            self.count += 1

    def take(self) -> int:
        """Return the count, and start again at 0."""
        with self._lock:
            count, self.count = self.count, 0
        return count


# Of this execution environment.
THROTTLED_REQUESTS: Final = ThrottleCount()


def _count_if_throttled(**event: Any) -> None:  # noqa: ANN401  # the SDK's own form
    """Count a response of DynamoDB's, for the metric, if a table or index is over its capacity."""
    response: Mapping[str, Any] = event.get("parsed_response") or {}
    if "Error" not in response:
        return
    reasons = response.get("CancellationReasons", ())  # of a transaction
    codes = {one.get("Code") for one in (response["Error"], *reasons)}
    if codes & OVER_CAPACITY_CODES:
        THROTTLED_REQUESTS.add()


class _Session:
    """The part of boto3's session that we use. Importing boto3 would also load S3 transfers."""

    def __init__(self) -> None:
        import botocore.session

        self._session = botocore.session.Session()
        self._services: set[str] = set()
        # Otherwise the SDK's loader searches the folders of all services for the names that exist.
        self._session.get_component("data_loader").list_available_services = self._known_services
        # The SDK repeats throttled requests, so no caller sees most of them.
        self._session.register("response-received.dynamodb", _count_if_throttled)

    def client(self, service: str, *, config: "Config") -> Any:  # noqa: ANN401  # of any service
        self._services.add(service)
        return self._session.create_client(service, config=config)

    def _known_services(self, type_name: str) -> set[str]:  # noqa: ARG002  # the SDK passes it
        return self._services


class AwsClients:
    """Made on first use; a session is not safe to make two clients from at once.

    A command passes its own timeouts as `config`: its caller waits longer than a worker may.
    """

    def __init__(
        self, session: "boto3.Session | None" = None, *, config: "Config | None" = None
    ) -> None:
        self._config = config
        self._session = session or cast("boto3.Session", _Session())
        self._lock = threading.RLock()

    @cached_property
    def dynamodb(self) -> "DynamoDBClient":
        return cast("DynamoDBClient", self._new_client("dynamodb"))

    @cached_property
    def sqs(self) -> "SQSClient":
        return cast("SQSClient", self._new_client("sqs"))

    @cached_property
    def sns(self) -> "SNSClient":
        return cast("SNSClient", self._new_client("sns"))

    @cached_property
    def s3(self) -> "S3Client":
        return cast("S3Client", self._new_client("s3"))

    @cached_property
    def cloudformation(self) -> "CloudFormationClient":
        return cast("CloudFormationClient", self._new_client("cloudformation"))

    @cached_property
    def cloudwatch(self) -> "CloudWatchClient":
        return cast("CloudWatchClient", self._new_client("cloudwatch"))

    @cached_property
    def events(self) -> "EventBridgeClient":
        return cast("EventBridgeClient", self._new_client("events"))

    @cached_property
    def secrets(self) -> "SecretsManagerClient":
        return cast("SecretsManagerClient", self._new_client("secretsmanager"))

    @cached_property
    def states(self) -> "SFNClient":
        return cast("SFNClient", self._new_client("stepfunctions"))

    @cached_property
    def users(self) -> "CognitoIdentityProviderClient":
        return cast("CognitoIdentityProviderClient", self._new_client("cognito-idp"))

    def new_client(self, service: str, config: "Config") -> Any:  # noqa: ANN401  # of any service
        """A client of its own for a provider that is an AWS service, within `request_deadline`."""
        # Imported here, so that whoever makes no client does not wait for the SDK's import.
        from oncely.plugins.aws_requests import apply_deadline_to_aws

        client = self.make(service, config)
        apply_deadline_to_aws(client)
        return client

    def make(self, service: str, config: "Config") -> Any:  # noqa: ANN401  # of any service
        """Make a client."""
        with self._lock:
            return self._session.client(service, config=config)  # type: ignore[call-overload]  # by name

    def _new_client(self, service: str) -> object:
        # Imported here, so that whoever makes no client does not wait for the SDK's import.
        from oncely.aws.client_config import DYNAMODB, MESSAGING

        default = DYNAMODB if service == "dynamodb" else MESSAGING
        return self.make(service, self._config or default)
