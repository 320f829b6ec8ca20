"""SNS: sends alerts to operators."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncely.alerts.budget import Alert
from oncely.core.aws_errors import translated
from oncely.core.errors import OncelyError

if TYPE_CHECKING:
    from oncely.aws.clients import AwsClients

_MAX_SUBJECT_LENGTH: Final = 100  # the limit of SNS, which accepts only ASCII
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SnsNotifier:
    """Publishes alerts to the alert topic."""

    clients: "AwsClients"  # the client is made for the first alert
    topic_arn: str

    def notify(self, alert: Alert) -> bool:
        """Publish an alert. Returns False if it fails: the job stays due, and a sweep retries."""
        printable = "".join(c if c.isprintable() else " " for c in alert.subject)
        subject = printable.encode("ascii", "replace").decode()[:_MAX_SUBJECT_LENGTH]
        try:
            check = "that this role may publish to it"
            with translated("the alert topic", name=self.topic_arn, check=check):
                self.clients.sns.publish(
                    TopicArn=self.topic_arn, Subject=subject, Message=alert.text
                )
        except OncelyError:
            _log.exception("alert not delivered", extra={"jobs": alert.names})
            return False
        return True
