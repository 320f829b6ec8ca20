"""The HTTPS endpoint for events: an unsigned request goes no further."""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from oncely.aws.sqs import MessageSender
from oncely.contracts.job import AnyJob, Tools, providers_of
from oncely.contracts.settings import Settings
from oncely.core.effect_outcomes import Json
from oncely.core.errors import OncelyError
from oncely.plugins.events import MAX_ENVELOPE_LENGTH, EventEnvelope, EventRule
from oncely.plugins.provider import AnyProvider

# The queue of a function that sends events: its own, whatever the jobs' queues are called.
EVENTS_QUEUE: Final = "events"


class WebhookResponse(IntEnum):
    """The HTTP status of a response. A provider resends what was not accepted."""

    ACCEPTED = 200  # queued, or an event that Oncely does not use
    REFUSED = 400  # not signed by the provider, or too long ago
    NOT_FOUND = 404
    TOO_LARGE = 413
    UNAVAILABLE = 503


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """The endpoint of one provider."""

    plugin: AnyProvider
    rules: tuple[EventRule, ...]


@dataclass(frozen=True, kw_only=True)
class WebhookReceiver:
    """Verifies each request before anything else, and passes on only ids."""

    webhooks: Mapping[str, Webhook]  # by the name of the provider, as in the path
    account: str
    secret: Callable[[str], str]
    sender: Callable[[], MessageSender]

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        contracts: Iterable[type[AnyJob]],
        dependencies: Tools,
    ) -> Self:
        """Serve those providers whose settings turn their endpoint on."""
        settings.require("event_account", "queue_url")
        plugins = providers_of(contracts)
        rules = {one.name: one.webhook_rules(settings.providers[one.name]) for one in plugins}
        return cls(
            webhooks={
                one.name: Webhook(plugin=one, rules=rules[one.name])
                for one in plugins
                if rules[one.name]
            },
            account=str(settings.event_account),
            secret=dependencies.secret,
            sender=lambda: dependencies.message_sender(EVENTS_QUEUE),
        )

    def receive(
        self, provider: str, body: str, headers: Mapping[str, str], *, is_base64: bool = False
    ) -> WebhookResponse:
        """Queue an event. The provider sends it again unless it is accepted."""
        webhook = self.webhooks.get(provider)
        if webhook is None:
            return WebhookResponse.NOT_FOUND
        if len(body) > MAX_ENVELOPE_LENGTH:
            return WebhookResponse.TOO_LARGE
        if not headers.get(webhook.plugin.webhook_header):
            return WebhookResponse.REFUSED  # before the signing secrets are read
        text = _decode(body) if is_base64 else body
        try:
            secrets = self.secret(webhook.plugin.webhook_secret_name).replace(",", " ").split()
        except OncelyError:
            return WebhookResponse.UNAVAILABLE
        detail = webhook.plugin.verify_webhook(text or "", headers, secrets=secrets)
        if detail is None:
            return WebhookResponse.REFUSED
        return self._queue(webhook, str(detail.get("type")), detail)

    def _queue(self, webhook: Webhook, type_: str, detail: Mapping[str, Json]) -> WebhookResponse:
        for rule in webhook.rules:
            if type_ in rule.detail_types and (kept := rule.reduce(detail)) is not None:
                envelope = EventEnvelope(
                    source=rule.source, account=self.account, detail_type=type_, detail=kept
                )
                sent = all(self.sender().send([envelope.to_body()]))
                return WebhookResponse.ACCEPTED if sent else WebhookResponse.UNAVAILABLE
        return WebhookResponse.ACCEPTED


def _decode(body: str) -> str | None:
    try:
        return base64.b64decode(body, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
