"""Accepted findings of cdk-nag, each with its reason."""

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    """Accept a finding about a construct; `finding` is the id without `AwsSolutions-`."""
    Validations.of(construct).acknowledge(
        Acknowledgment(id=f"AwsSolutions-{finding}", reason=reason)
    )
