"""The stack that a command works on: in an AWS account, or on this machine."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from oncely.cli.errors import CommandError, ExitCode
from oncely.cli.local_stack import LocalState
from oncely.cli.project import project_jobs, project_or_none
from oncely.core.text import single_line

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config

    from oncely.app import App
    from oncely.plugins.provider import AnyProvider, ApiKeyCheck, ProviderSettings

DEFAULT_STACK: Final = "Oncely-dev"
# A stored actor has at most 128 characters, and an AWS session name up to 64 of them.
_MAX_GIVEN_NAME_LENGTH: Final = 45


@dataclass(frozen=True, kw_only=True)
class StackSelector:
    """The options that select a stack."""

    stack: str | None = None  # None for the project's
    profile: str | None = None
    region: str | None = None
    local: bool = False


class StackConnection:
    """A deployed stack. Everything is read once, on first use."""

    def __init__(self, selector: StackSelector) -> None:
        self.selector = selector
        self._local = LocalState.read() if selector.local else None

    @cached_property
    def name(self) -> str:
        return (
            (self.selector.stack or _default_stack()) if self._local is None else self._local.stack
        )

    @property
    def cli_options(self) -> str:
        """The options for a printed command to reach this stack, such as ` --local`, or ``."""
        if self._local is not None:
            return " --local"
        selector = self.selector
        default = os.environ.get("ONCELY_STACK") or _default_stack()
        stack = None if self.name == default else self.name
        given = {"stack": stack, "profile": selector.profile, "region": selector.region}
        return "".join(f" --{name} {quote(value)}" for name, value in given.items() if value)

    @property
    def is_local(self) -> bool:
        return self.name.endswith("-local")  # works with and without --local

    @cached_property
    def session(self) -> "boto3.Session":
        import boto3

        if self._local is not None:
            # boto3 reads an endpoint for all services from the environment only.
            os.environ.update(self._local.boto3_env())
            os.environ.pop("AWS_PROFILE", None)
            return boto3.Session()
        # boto3 reads AWS_DEFAULT_REGION only, the AWS CLI reads AWS_REGION too.
        region = self.selector.region or os.environ.get("AWS_REGION")
        return boto3.Session(profile_name=self.selector.profile, region_name=region)

    def client(self, service: str) -> Any:  # noqa: ANN401  # each service has its own
        return self.session.client(service, config=_client_config())  # type: ignore[call-overload]  # by name

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        from oncely.core.aws_errors import AWS_ERRORS

        try:
            found = self.client("cloudformation").describe_stacks(StackName=self.name)
        except AWS_ERRORS as error:
            if "does not exist" in str(error):
                raise self._stack_not_found() from None
            raise
        listed = found["Stacks"][0].get("Outputs", [])
        return {one["OutputKey"]: one["OutputValue"] for one in listed}

    @cached_property
    def app(self) -> "App":
        from oncely.app import app_from_env
        from oncely.aws.clients import AwsClients
        from oncely.cli.stack_environment import stack_environment

        jobs = project_jobs()
        clients = AwsClients(self.session, config=_client_config())
        environment = stack_environment(self.outputs, os.environ, jobs)
        return app_from_env(environment, jobs, clients=clients)

    def provider_settings(self, plugin: "AnyProvider") -> "ProviderSettings":
        from oncely.cli.stack_environment import settings_from_outputs

        return settings_from_outputs(plugin, self.outputs)

    def check_api_key(self, plugin: "AnyProvider", key: str) -> "ApiKeyCheck | None":
        """Check an API key with its provider. Returns None if the provider has no check."""
        return plugin.check_api_key(key, self.provider_settings(plugin))

    def _stack_not_found(self) -> CommandError:
        why = f"not found in {self.session.region_name}. Name yours with --stack (or ONCELY_STACK) "
        why += "and --region, or deploy one first."
        if self._local is not None:
            why = "is not deployed on this machine. Deploy it with `oncely local`."
        return CommandError(f"Stack {self.name} {why}", ExitCode.UNREACHABLE)


def _default_stack() -> str:
    project = project_or_none()
    return (project and project.text("stack")) or DEFAULT_STACK


def _client_config() -> "Config":
    from botocore.config import Config

    # Fail within seconds: an operator is waiting.
    retries: Any = {"mode": "standard", "max_attempts": 2}
    return Config(connect_timeout=3, read_timeout=15, retries=retries)


def caller_identity(stack: StackConnection) -> str:
    """Return the AWS user or session."""
    arn = str(stack.client("sts").get_caller_identity()["Arn"])
    # arn:aws:iam::1:user/ada, arn:aws:sts::1:assumed-role/Operator/ada@example.com, …:root
    return arn.rpartition("/")[2] if "/" in arn else arn.rpartition(":")[2]


def actor_name(identity: str, given_name: str | None) -> str:
    """Return the name to record. A given name comes first and never hides the identity."""
    if given_name is None:
        return identity
    return f"{single_line(given_name, _MAX_GIVEN_NAME_LENGTH)} (signed in as {identity})"
