"""An AWS account in memory: one client of each service, under the shipped adapters."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from oncely.contracts.table_schema import TableSchema
from oncely.testing.memory_aws.calls import Intercept, MemoryClient, perform_directly
from oncely.testing.memory_aws.dynamodb import MemoryDynamo
from oncely.testing.memory_aws.services import (
    MemoryEventBridge,
    MemoryS3,
    MemorySecrets,
    MemorySns,
    MemorySqs,
    MemoryStepFunctions,
    Now,
)

if TYPE_CHECKING:
    from botocore.config import Config

    from oncely.aws.clients import AwsClients


class MemoryAws:
    """Stands for `AwsClients`. A provider that is an AWS service adds its own client by name."""

    def __init__(
        self,
        *,
        now: Now,
        tables: Mapping[str, TableSchema] | None = None,  # None for an account without DynamoDB
        services: Mapping[str, MemoryClient] | None = None,
    ) -> None:
        self.sqs = MemorySqs(now)
        self.sns = MemorySns()
        self.s3 = MemoryS3(now)
        self.events = MemoryEventBridge()
        self.secrets = MemorySecrets()
        self.states = MemoryStepFunctions(now)
        own = (self.sqs, self.sns, self.s3, self.events, self.secrets, self.states)
        self._by_name: dict[str, MemoryClient] = {one.service: one for one in own}
        self._by_name |= services or {}
        if tables is not None:
            self._by_name["dynamodb"] = self.dynamodb = MemoryDynamo(tables, now=now)
        self.intercept = perform_directly

    @property
    def intercept(self) -> Intercept:
        """Performs every call of every client."""
        return self._intercept

    @intercept.setter
    def intercept(self, intercept: Intercept) -> None:
        self._intercept = intercept
        for client in self._by_name.values():
            client.intercept = intercept

    @property
    def clients(self) -> "AwsClients":
        """The account as adapters take it."""
        return cast("AwsClients", self)

    def new_client(self, service: str, config: "Config | None" = None) -> Any:  # noqa: ANN401  # of any service
        """The one client of a service. Its timeouts and retries do not matter here."""
        del config
        return self._by_name[service]
