"""Where a command works: a stack in an AWS account, or the one on this machine."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Protocol

from oncely.cli.exits import CommandError, ExitCode
from oncely.cli.local_state import LocalState

if TYPE_CHECKING:
    import boto3

    from oncely.aws.operator_services import OperatorServices
    from oncely.provider import ApiKeyCheck

DEFAULT_STACK: Final = "Oncely-dev"


@dataclass(frozen=True, kw_only=True)
class StackSelector:
    """What the options say."""

    stack: str = DEFAULT_STACK
    profile: str | None = None
    region: str | None = None
    local: bool = False


class StackConnection(Protocol):
    """What commands need of the place that they work at."""

    @property
    def name(self) -> str:
        """What to call it: the stack's name."""

    @property
    def cli_options(self) -> str:
        """What lets another command mean this place, such as ` --local`; empty if nothing must."""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs of the stack."""

    def client(self, service: str) -> Any:  # noqa: ANN401  # each service has its own
        """A client of an AWS service."""

    def services(self, actor: str) -> "OperatorServices":
        """The services that find, send and repair jobs."""

    def check_api_key(self, provider: str, key: str) -> "ApiKeyCheck | None":
        """Ask a provider whether it accepts a key. Returns None if it cannot be asked."""


class AwsStackConnection:
    """A deployed stack; everything is read on first use, and once."""

    def __init__(self, selector: StackSelector) -> None:
        self.selector = selector
        self._local = LocalState.read() if selector.local else None

    @property
    def name(self) -> str:
        """The stack's name."""
        return self.selector.stack if self._local is None else self._local.stack

    @property
    def cli_options(self) -> str:
        """The options that a command which is printed here needs, to mean the same place."""
        if self._local is not None:
            return " --local"
        selector = self.selector
        stack = None if self.name == os.environ.get("ONCELY_STACK", DEFAULT_STACK) else self.name
        given = {"stack": stack, "profile": selector.profile, "region": selector.region}
        return "".join(f" --{name} {quote(value)}" for name, value in given.items() if value)

    @property
    def is_local(self) -> bool:
        """Whether it is the stage of one machine, however it was named."""
        return self.name.endswith("-local")

    @cached_property
    def session(self) -> "boto3.Session":
        """Signed in as the options and the environment say."""
        import boto3

        if self._local is not None:
            # boto3 takes an address for all services from the environment only.
            os.environ.update(self._local.boto3_env())
            os.environ.pop("AWS_PROFILE", None)
            return boto3.Session()
        # boto3 alone reads AWS_DEFAULT_REGION only; the AWS CLI and people say AWS_REGION.
        region = self.selector.region or os.environ.get("AWS_REGION")
        return boto3.Session(profile_name=self.selector.profile, region_name=region)

    def client(self, service: str) -> Any:  # noqa: ANN401  # each service has its own
        """A client of an AWS service, for a person who waits: it gives up within seconds."""
        from botocore.config import Config

        config = Config(
            connect_timeout=3, read_timeout=15, retries={"mode": "standard", "max_attempts": 2}
        )
        return self.session.client(service, config=config)  # type: ignore[call-overload]  # by name

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The outputs of the stack, as CloudFormation knows them."""
        from botocore.exceptions import ClientError

        try:
            found = self.client("cloudformation").describe_stacks(StackName=self.name)
        except ClientError as error:
            if "does not exist" in str(error):
                raise self._no_stack() from None
            raise
        return {
            one["OutputKey"]: one["OutputValue"] for one in found["Stacks"][0].get("Outputs", [])
        }

    def services(self, actor: str) -> "OperatorServices":
        """The services that find, send and repair jobs."""
        from oncely.aws.operator_services import services_for_stack
        from oncely.jobs import CONTRACTS

        return services_for_stack(
            self.outputs, session=self.session, actor=actor, contracts=CONTRACTS
        )

    def check_api_key(self, provider: str, key: str) -> "ApiKeyCheck | None":
        """Ask HubSpot, at the address that the stack's jobs use."""
        from oncely.providers.hubspot.api_key import check_api_key

        if provider != "hubspot":
            return None
        return check_api_key(key, api_base=self.outputs.get("HubspotApiBase"))

    def _no_stack(self) -> CommandError:
        if self._local is not None:
            return CommandError(
                f"The stack {self.name} is not on this machine's AWS: `make local` deploys it.",
                ExitCode.UNREACHABLE,
            )
        region = self.session.region_name
        return CommandError(
            f"There is no stack {self.name} in {region}: name yours with --stack (or set "
            "ONCELY_STACK) and --region, or make one with `make deploy STAGE=dev`.",
            ExitCode.UNREACHABLE,
        )
