"""Hands messages back to their queue if Oncely could not process them."""

from collections.abc import Iterable
from contextlib import suppress

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from oncely.app import App
from oncely.run.process_batch import postpone_delay


def hand_back(app: App, records: Iterable[SQSRecord]) -> None:
    """Redeliver each after seconds, then with growing delays, instead of a visibility timeout."""
    for record in records:
        receives = int(record.attributes.approximate_receive_count)
        delay = postpone_delay(receives, app.settings.max_receive_count)
        with suppress(Exception):  # then it is redelivered when its visibility timeout ends
            app.ports.message_source.redeliver_after(record.receipt_handle, delay=delay)
