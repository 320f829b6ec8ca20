"""The providers' keys: a secret for each, created empty for a person to fill, or there already."""

from collections.abc import Iterable

from aws_cdk import Acknowledgment, RemovalPolicy, Validations
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from oncely.settings import pascal_case, secret_env_var
from oncely_cdk.stages import Stage


class ProviderSecrets(Construct):
    """Functions know a secret by its ARN: a name may be used by another stack as well."""

    def __init__(self, scope: Construct, id_: str, *, stage: Stage, names: Iterable[str]) -> None:
        super().__init__(scope, id_)
        self._arns = {name: self._arn(name, stage) for name in names}
        self._read_only_arns = {**self._arns, **stage.read_only_secrets}

    def arns(self, names: Iterable[str], *, read_only: bool = False) -> list[str]:
        """The ARNs of these secrets; `reading`: of keys that need not act."""
        return list(self._select_arns(names, read_only=read_only).values())

    def arns_by_name(self) -> dict[str, str]:
        """The ARN of each secret, by its short name."""
        return dict(self._arns)

    def env_vars(self, names: Iterable[str], *, read_only: bool = False) -> dict[str, str]:
        """The variables that name these secrets; `reading`: of keys that need not act."""
        found = self._select_arns(names, read_only=read_only)
        return {secret_env_var(name): arn for name, arn in found.items()}

    def _select_arns(self, names: Iterable[str], *, read_only: bool) -> dict[str, str]:
        arns = self._read_only_arns if read_only else self._arns
        return {name: arns[name] for name in names}

    def _arn(self, name: str, stage: Stage) -> str:
        if name in stage.existing_secrets:
            return stage.existing_secrets[name]
        secret = secretsmanager.Secret(
            self,
            pascal_case(name),
            description=f"Oncely: the API key of {name}; put it in as plain text",
            removal_policy=RemovalPolicy.RETAIN if stage.retain_data else RemovalPolicy.DESTROY,
        )
        # The construct would make a random password up, which no provider knows.
        resource = secret.node.default_child
        assert isinstance(resource, secretsmanager.CfnSecret)  # noqa: S101  # for the type checker
        resource.add_property_deletion_override("GenerateSecretString")
        Validations.of(secret).acknowledge(
            Acknowledgment(
                id="AwsSolutions-SMG4",
                reason="The provider makes the key; a new one is put in, and used in 5 minutes.",
            )
        )
        # Not its reference: the local engine gives the name for that, AWS the ARN.
        return resource.attr_id
