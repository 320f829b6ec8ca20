"""The metrics that functions emit, by the names that they emit them under."""

from dataclasses import dataclass
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from oncely.signals import NAMESPACE

PERIOD: Final = Duration.minutes(5)


@dataclass(frozen=True)
class JobMetrics:
    """The metrics of one stack's functions: two stacks in one account are told apart."""

    service: str

    def __call__(
        self, name: str, *, statistic: str = "Sum", reason: str | None = None
    ) -> cloudwatch.Metric:
        """One of them; `reason` selects one that is counted by reason as well."""
        by_reason = {} if reason is None else {"reason": reason}
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"service": self.service, **by_reason},
            statistic=statistic,
            period=PERIOD,
            # An alarm takes no label, so there is one only where two would look alike.
            label=reason,
        )
