"""The alarms: each says what it means, what to begin with, and where the runbook says more."""

from collections.abc import Iterable

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from oncely_cdk.alarm_specs import AlarmSpec
from oncely_cdk.alerts import AlertTopic
from oncely_cdk.stages import Stage


class Alarms(Construct):
    """One alarm for each watch, told to the alert topic when it begins and when it is over."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: Stage,
        alerts: AlertTopic,
        specs: Iterable[AlarmSpec],
    ) -> None:
        super().__init__(scope, id_)
        notify = actions.SnsAction(alerts.topic)
        stack = Stack.of(self).stack_name
        for spec in specs:
            # The local engine knows no alarms on more than one metric.
            if stage.is_local and isinstance(spec.metric, cloudwatch.MathExpression):
                continue
            alarm = cloudwatch.Alarm(
                self,
                spec.name,
                metric=spec.metric,
                threshold=spec.threshold,
                comparison_operator=(
                    cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
                ),
                evaluation_periods=spec.evaluation_periods,
                datapoints_to_alarm=spec.datapoints_to_alarm or spec.evaluation_periods,
                treat_missing_data=(
                    cloudwatch.TreatMissingData.BREACHING
                    if spec.missing_data_breaches
                    else cloudwatch.TreatMissingData.NOT_BREACHING
                ),
                # `oncely doctor` takes this apart again.
                alarm_description=(
                    f"{spec.description} Begin with: oncely {spec.first_command} --stack {stack} "
                    f"Runbook: {stage.runbook_url}#{spec.runbook_section}"
                ),
            )
            alarm.add_alarm_action(notify)
            alarm.add_ok_action(notify)
