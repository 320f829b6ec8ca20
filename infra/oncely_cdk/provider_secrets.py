"""The secrets with the providers' API keys: existing ones, or created empty."""

from collections.abc import Iterable, Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from oncely.contracts.settings import pascal_case, secret_env_var
from oncely_cdk.encryption_keys import EncryptionKeys
from oncely_cdk.nag import acknowledge
from oncely_cdk.stages import OncelySettings, StageError


class ProviderSecrets(Construct):
    """One secret per provider. Functions get its ARN, since names can collide between stacks."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: OncelySettings,
        names: Iterable[str],
        given: Mapping[str, secretsmanager.ISecret],
    ) -> None:
        super().__init__(scope, id_)
        self._given = given
        self.arns_by_name = {name: self._arn(name, stage) for name in names}
        self._read_only_arns = {**self.arns_by_name, **stage.read_only_secrets}
        self._add_keys(stage)

    def arns(self, names: Iterable[str], *, read_only: bool = False) -> list[str]:
        return list(self._select_arns(names, read_only=read_only).values())

    def env_vars(self, names: Iterable[str], *, read_only: bool = False) -> dict[str, str]:
        found = self._select_arns(names, read_only=read_only)
        return {secret_env_var(name): arn for name, arn in found.items()}

    def _select_arns(self, names: Iterable[str], *, read_only: bool) -> dict[str, str]:
        arns = self._read_only_arns if read_only else self.arns_by_name
        return {name: arns[name] for name in names}

    def _add_keys(self, stage: OncelySettings) -> None:
        keys, by_name = EncryptionKeys.of(self), stage.existing_keys.secrets
        for name, arn in self.arns_by_name.items():
            key = given.encryption_key if (given := self._given.get(name)) else None
            if key_arn := key.key_arn if key else by_name.get(name):
                keys.add(key_arn, arn)
        for name, key_arn in stage.existing_keys.read_only_secrets.items():
            keys.add(key_arn, stage.read_only_secrets[name])

    def _arn(self, name: str, stage: OncelySettings) -> str:
        if (given := self._given.get(name)) is not None:
            if given.secret_full_arn is None:
                raise StageError(
                    f"the secret {name!r} is imported without the suffix of its ARN, so "
                    "permission to read it cannot be granted: use Secret.from_secret_complete_arn"
                )
            return given.secret_full_arn
        if name in stage.existing_secrets:
            return stage.existing_secrets[name]
        secret = secretsmanager.Secret(
            self,
            pascal_case(name),
            description=f"Oncely: API key of {name}, stored as plain text",
            removal_policy=RemovalPolicy.RETAIN if stage.retain_data else RemovalPolicy.DESTROY,
        )
        # Without this, the construct would generate a random password.
        resource = secret.node.default_child
        assert isinstance(resource, secretsmanager.CfnSecret)  # noqa: S101  # for the type checker
        resource.add_property_deletion_override("GenerateSecretString")
        acknowledge(
            secret, "SMG4", "The provider issues the key; functions use a new one within 5 minutes."
        )
        # Not its reference: that is the ARN on AWS, but the name in the local engine.
        return resource.attr_id
