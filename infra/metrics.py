"""The metrics that functions emit, by the names that they emit them under."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from oncely.telemetry import NAMESPACE, SERVICE

PERIOD = Duration.minutes(5)


def emitted(name: str, *, statistic: str = "Sum", reason: str | None = None) -> cloudwatch.Metric:
    """A metric of the functions; `reason` selects one that is counted by reason as well."""
    by_reason = {} if reason is None else {"reason": reason}
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"service": SERVICE, **by_reason},
        statistic=statistic,
        period=PERIOD,
        # An alarm takes no label, so there is one only where two would look alike.
        label=reason,
    )
