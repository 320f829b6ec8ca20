"""Accepted findings of cdk-nag, each with its reason."""

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    """Accept a finding about a construct; `finding` is the id without `AwsSolutions-`."""
    accepted = Acknowledgment(id=f"AwsSolutions-{finding}", reason=reason)
    try:
        Validations.of(construct).acknowledge(accepted)
    except RuntimeError as error:
        # Before 2.269, aws-cdk-lib refuses ids that contain `::`. Only cdk-nag reads them.
        if "InvalidValidationId" not in str(error):
            raise


def wildcard_finding(scope: IConstruct, arn: str) -> str:
    """Return the finding about an ARN with a wildcard, as cdk-nag spells it."""
    resolved = Stack.of(scope).resolve(arn)
    # Deploy-time values are in angle brackets. With account and region set, the ARN is plain text.
    is_joined = isinstance(resolved, dict) and "Fn::Join" in resolved
    parts = resolved["Fn::Join"][1] if is_joined else [resolved]
    return f"IAM5[Resource::{''.join(map(_spell, parts))}]"


def _spell(part: object) -> str:
    match part:
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case _:
            return str(part)
