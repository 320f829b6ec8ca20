"""SNS: sends alerts to operators."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from oncely.ports import Alert

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

_MAX_SUBJECT_LENGTH: Final = 100  # SNS takes no more, and ASCII only
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SnsNotifier:
    """Publishes alerts to the alert topic."""

    client: "SNSClient"
    topic_arn: str

    def notify(self, alert: Alert) -> bool:
        """Publish an alert. Returns False if it fails: the job stays due, and a sweep retries."""
        printable = "".join(c if c.isprintable() else " " for c in alert.subject)
        subject = printable.encode("ascii", "replace").decode()[:_MAX_SUBJECT_LENGTH]
        try:
            self.client.publish(TopicArn=self.topic_arn, Subject=subject, Message=alert.text)
        except (BotoCoreError, ClientError):
            _log.exception("alert not delivered", extra={"job_key": alert.job_key})
            return False
        return True
