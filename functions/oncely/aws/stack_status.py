"""Whether CloudFormation rolls the stack back, which no check may stop."""

from typing import TYPE_CHECKING

from oncely.core.aws_errors import AWS_ERRORS

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient


def is_rolling_back(client: "CloudFormationClient", stack_id: str) -> bool:
    """Returns False also if CloudFormation does not answer."""
    try:
        (stack,) = client.describe_stacks(StackName=stack_id)["Stacks"]
    except AWS_ERRORS:
        return False
    return "ROLLBACK" in stack["StackStatus"]
