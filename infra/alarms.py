"""The alarms: each says what it means, what to begin with, and where the runbook says more."""

from collections.abc import Iterable

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from infra.alerts import Alerts
from infra.stages import Stage
from infra.watches import Watch


class Alarms(Construct):
    """One alarm for each watch, told to the alert topic when it begins and when it is over."""

    def __init__(
        self, scope: Construct, id_: str, *, stage: Stage, alerts: Alerts, watches: Iterable[Watch]
    ) -> None:
        super().__init__(scope, id_)
        tell = actions.SnsAction(alerts.topic)
        stack = Stack.of(self).stack_name
        for watch in watches:
            # The local engine knows no alarms on more than one metric.
            if stage.is_local and isinstance(watch.metric, cloudwatch.MathExpression):
                continue
            alarm = cloudwatch.Alarm(
                self,
                watch.name,
                metric=watch.metric,
                threshold=watch.at_least,
                comparison_operator=(
                    cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
                ),
                evaluation_periods=watch.periods,
                datapoints_to_alarm=watch.of_which or watch.periods,
                treat_missing_data=(
                    cloudwatch.TreatMissingData.BREACHING
                    if watch.silence_is_bad
                    else cloudwatch.TreatMissingData.NOT_BREACHING
                ),
                # `oncely doctor` takes this apart again.
                alarm_description=(
                    f"{watch.meaning} Begin with: oncely {watch.begin} --stack {stack} "
                    f"Runbook: {stage.runbook_url}#{watch.section}"
                ),
            )
            alarm.add_alarm_action(tell)
            alarm.add_ok_action(tell)
