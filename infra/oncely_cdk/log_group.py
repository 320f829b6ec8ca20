"""A log group that forgets after a while, and that a production stack leaves behind."""

from typing import Final

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from oncely_cdk.stages import Stage

# CloudWatch keeps logs in steps of its own.
_RETENTION_STEPS: Final = {
    1: logs.RetentionDays.ONE_DAY,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    731: logs.RetentionDays.TWO_YEARS,
}


def create_log_group(scope: Construct, *, stage: Stage, name: str | None = None) -> logs.LogGroup:
    """The log group of a construct, kept at least as long as the stage says."""
    # One with a fixed name that was left behind would be in the way of the next deployment.
    stays = stage.retain_data and name is None
    steps = (step for days, step in _RETENTION_STEPS.items() if stage.log_retention_days <= days)
    return logs.LogGroup(
        scope,
        "Logs",
        log_group_name=name,
        retention=next(steps, logs.RetentionDays.TEN_YEARS),
        removal_policy=RemovalPolicy.RETAIN if stays else RemovalPolicy.DESTROY,
    )
