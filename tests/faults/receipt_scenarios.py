"""Receipts and the events that prove them: in time, late, twice, lost, and forged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from oncely.core.keys import JobKey
from oncely.jobs.receipt_send import ReceiptSend
from oncely.providers.ses.plugin import SesSettings
from oncely.providers.ses.sandbox.api import SesSandbox
from oncely.providers.ses.sandbox.model import SentEmail
from oncely.testing import FinalState
from oncely.testing.rows import BusinessRows
from oncely.testing.scenario import EventSource, Scenario
from tests.faults.expectations import ORDER
from tests.support.mail_events import SET, as_delivered, mail_event

KEY: Final = JobKey("receipt.send:order_18452")
SETTINGS: Final = SesSettings(sender_address="receipts@example.com", configuration_set=SET)
IN_TIME: Final = timedelta(seconds=2)
LATE: Final = timedelta(minutes=20)  # after the review


def sent_events(providers: Mapping[str, Any]) -> Sequence[str]:
    """One `Send` event for each email, with the tags of its request."""
    model: SesSandbox = providers["ses"]
    return [_sent(one) for one in model.ledger.mails]


def bounced_events(providers: Mapping[str, Any]) -> Sequence[str]:
    """The bounce arrives before the event of the email itself."""
    bounced = [as_delivered(mail_event("Bounce", key=KEY, deployment="dev"))]
    sent = sent_events(providers)
    return [*bounced, *sent] if sent else []


def forged_events(providers: Mapping[str, Any]) -> Sequence[str]:
    """From the start: of another deployment, claim, key or job, and before the row."""
    forged = (
        mail_event("Send", key=KEY, deployment="staging", message_id="forged"),
        mail_event("Send", key=KEY, deployment="dev", fence=9, message_id="forged"),
        mail_event("Send", key=KEY, deployment="dev", tag_key="guessed", message_id="forged"),
        mail_event("Send", key=JobKey("receipt.send:order_x"), deployment="dev"),
    )
    return [*map(as_delivered, forged), *sent_events(providers)]


def _sent(mail: SentEmail) -> str:
    tag = mail.tags["oncely_key"]
    event = mail_event("Send", key=KEY, message_id=mail.message_id, oncely_key=[tag])
    return as_delivered(event)


def count_sent(ended: FinalState) -> int:
    """How many emails were sent."""
    model: SesSandbox = ended.providers["ses"]
    return len(model.ledger.mails)


def check_no_operator(ended: FinalState) -> Iterator[str]:
    """An email with an event needs no operator."""
    job = ended.job(KEY)
    if count_sent(ended) and (job is None or not job.status.is_finished):
        yield f"the receipt was sent and its event arrived, but it is {job and job.status}"


def receipt_scenarios(seed: Callable[[BusinessRows], None]) -> tuple[Scenario, ...]:
    """The same receipt with each way in which its events arrive."""
    events = EventSource(bodies=sent_events, delay=IN_TIME)
    plain = Scenario(
        name="receipt.send/event",
        contracts=(ReceiptSend,),
        message={"job": "receipt.send", "v": 1, **ORDER},
        providers=lambda options: {"ses": SesSandbox(options)},
        count_effects=count_sent,
        seed_rows=seed,
        published_events=events,
        provider_settings={"ses": SETTINGS},
        check=check_no_operator,
    )
    return (
        plain,
        replace(
            plain, name="receipt.send/event-late", published_events=replace(events, delay=LATE)
        ),
        replace(
            plain, name="receipt.send/event-twice", published_events=replace(events, deliveries=2)
        ),
        replace(
            plain,
            name="receipt.send/event-bounce",
            published_events=replace(events, bodies=bounced_events),
        ),
        replace(
            plain,
            name="receipt.send/event-lost",
            published_events=replace(events, lost=True),
            check=lambda _: (),
        ),
        replace(
            plain,
            name="receipt.send/event-forged",
            published_events=replace(events, bodies=forged_events),
        ),
    )
