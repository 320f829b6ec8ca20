"""The customer-managed KMS keys of existing resources.

A role that may use such a resource may use its key, but only through the resource's service.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

_CHILD: Final = "EncryptionKeys"
_READ: Final = ("kms:Decrypt", "kms:DescribeKey")
_WRITE: Final = (
    *_READ,
    *("kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"),
)
_SEND: Final = ("kms:Decrypt", "kms:GenerateDataKey")
# Key actions of the service on behalf of the caller. Other actions use no key.
KMS_ACTIONS: Final = {
    **{
        f"dynamodb:{name}": _READ
        for name in ("GetItem", "BatchGetItem", "ConditionCheckItem", "Query", "Scan", "GetRecords")
    },
    **{
        f"dynamodb:{name}": _WRITE
        for name in ("PutItem", "UpdateItem", "DeleteItem", "PartiQLInsert", "PartiQLUpdate")
    },
    "s3:GetObject": ("kms:Decrypt",),
    "s3:GetObjectVersion": ("kms:Decrypt",),
    "s3:PutObject": _SEND,
    "secretsmanager:GetSecretValue": ("kms:Decrypt",),
    "sqs:ReceiveMessage": ("kms:Decrypt",),
    "sqs:SendMessage": _SEND,
}


class EncryptionKeys(Construct):
    """The keys of one `Oncely` construct, by resource."""

    def __init__(self, scope: Construct) -> None:
        super().__init__(scope, _CHILD)
        self._by_resource: dict[str, str] = {}

    @classmethod
    def of(cls, scope: IConstruct) -> "EncryptionKeys":
        """Return the keys of the construct that this one is part of."""
        for one in reversed(scope.node.scopes):
            if isinstance(found := one.node.try_find_child(_CHILD), cls):
                return found
        raise LookupError(f"{scope.node.path} is in no Oncely construct")

    def add(self, key: str, *resources: str) -> None:
        """Register the key of resources, by ARN. It covers what is below them, such as objects."""
        self._by_resource |= dict.fromkeys(resources, key)

    def statements(
        self, actions: Sequence[str], resources: Sequence[str]
    ) -> Iterator[iam.PolicyStatement]:
        """Return what these actions on these resources need of their keys."""
        keys = {
            key
            for encrypted, key in self._by_resource.items()
            for resource in resources
            if f"{resource}/".startswith(f"{encrypted}/")
        }
        needed = {one for action in actions for one in KMS_ACTIONS.get(action, ())}
        if keys and needed:
            service, region = actions[0].partition(":")[0], Stack.of(self).region
            via = {"kms:ViaService": f"{service}.{region}.amazonaws.com"}
            yield iam.PolicyStatement(
                actions=sorted(needed), resources=sorted(keys), conditions={"StringEquals": via}
            )
