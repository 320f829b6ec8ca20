"""The encrypted topic for alerts of functions and alarms."""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from oncely_cdk.job_function import GrantedFunction
from oncely_cdk.stages import OncelySettings


class AlertTopic(Construct):
    """The topic, its KMS key and its email subscription."""

    def __init__(self, scope: Construct, id_: str, *, stage: OncelySettings) -> None:
        super().__init__(scope, id_)
        self._stage = stage
        # Otherwise, alarms of any account could publish here through CloudWatch.
        own_account = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        alarms = iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=own_account)
        # CloudWatch alarms cannot use the AWS managed key of SNS.
        self.key = kms.Key(
            self,
            "Key",
            description="Oncely: encrypts alerts",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.RETAIN if stage.retain_data else RemovalPolicy.DESTROY,
        )
        self.key.grant(alarms, "kms:Decrypt", "kms:GenerateDataKey*")
        self.topic = sns.Topic(
            self,
            "Topic",
            display_name=f"Oncely {stage.name}",
            master_key=self.key,
            enforce_ssl=stage.tls_only,
        )
        # A custom topic policy replaces the default one, which would allow alarms.
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AllowAlarms",
                principals=[alarms],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
            )
        )
        if stage.alert_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(stage.alert_email))

    def env_vars(self) -> dict[str, str]:
        return {
            "ALERT_TOPIC_ARN": self.topic.topic_arn,
            "STACK_NAME": Stack.of(self).stack_name,
            "MAX_ALERTS_PER_HOUR": str(self._stage.max_alerts_per_hour),
        }

    def grant_publish(self, function: GrantedFunction) -> None:
        function.grant("sns:Publish", resources=[self.topic.topic_arn])
        function.grant("kms:Decrypt", "kms:GenerateDataKey", resources=[self.key.key_arn])
