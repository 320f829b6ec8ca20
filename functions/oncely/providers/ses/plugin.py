"""The Amazon SES plug-in."""

from collections.abc import Iterator
from datetime import timedelta
from email.utils import parseaddr
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from oncely.core.errors import NotConfiguredError
from oncely.core.hints import DropReason
from oncely.core.profiles import ProviderProfile
from oncely.plugins.events import EventEnvelope, EventRule, ProviderEvent
from oncely.plugins.health import Finding
from oncely.plugins.provider import (
    IamGrant,
    Provider,
    ProviderAccess,
    ProviderSettings,
    StackResource,
)
from oncely.providers.ses import events

if TYPE_CHECKING:
    from oncely.providers.ses.mailer import SesMailer

PROFILE: Final = ProviderProfile(
    name="Amazon SES",
    request_timeout=timedelta(seconds=10),
    max_calls=1,
    # What others report outside of SES's sandbox. AWS names no number; `oncely doctor` reads ours.
    effects_per_second=14,
    key_scope="none: SES has neither idempotency keys nor lookups",
)


class SesSettings(ProviderSettings):
    """The sender's address. Without one, no email is sent."""

    sender_address: str | None = None
    # It publishes the events that prove what was sent. By default the stack creates one.
    configuration_set: str | None = None
    # SES delivers most events within seconds. After this time, none is likely.
    event_wait_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900


class SesPlugin(Provider["SesMailer", SesSettings]):
    """Email through Amazon SES."""

    name = "ses"
    profile = PROFILE
    settings_type = SesSettings
    has_api_key = False
    required_settings = ("sender_address",)
    sandbox = "oncely.providers.ses.sandbox.api:SesSandbox"
    facts = "oncely.providers.ses.facts:FACTS"
    endpoint_env_var = "AWS_ENDPOINT_URL_SESV2"

    def connect(self, access: ProviderAccess[SesSettings]) -> "SesMailer":
        """Build the mailer, which opens a client and a connection for each email."""
        from oncely.providers.ses.mailer import NO_RETRIES, SesMailer  # noqa: PLC0415

        sender, new_client = access.settings.sender_address, access.new_aws_client
        if sender is None or new_client is None:
            raise NotConfiguredError(
                f"no email can be sent: set {self.env_var('sender_address')} and deploy again"
            )
        configuration_set = access.settings.configuration_set
        wait = timedelta(seconds=access.settings.event_wait_seconds)
        return SesMailer(
            new_client=lambda: new_client("sesv2", NO_RETRIES),
            sender=sender,
            configuration_set=configuration_set,
            event_wait=None if configuration_set is None else wait,
            gate=access.gate,
        )

    def event_rules(self, settings: SesSettings) -> tuple[EventRule, ...]:
        if settings.sender_address is None or settings.configuration_set is None:
            return ()
        return events.event_rules(settings.configuration_set)

    def read_event(self, envelope: EventEnvelope) -> ProviderEvent | DropReason:
        return events.read_event(envelope)

    def check_health(
        self, access: ProviderAccess[SesSettings], *, is_production: bool
    ) -> Iterator[Finding]:
        from oncely.providers.ses.health import (  # noqa: PLC0415
            check_account,
            check_events,
            check_sender,
        )

        settings, new_client = access.settings, access.new_aws_client
        if settings.sender_address is not None and new_client is not None:
            client = new_client("sesv2")
            yield from check_account(client, is_production=is_production)
            yield from check_sender(client, settings.sender_address)
            if settings.configuration_set is not None:
                yield from check_events(client, settings.configuration_set)

    def stack_resources(
        self, settings: SesSettings, *, name: str, event_bus: str
    ) -> tuple[StackResource, ...]:
        """Publish the events of our own emails, unless the stage sets a configuration set."""
        if settings.sender_address is None or settings.configuration_set is not None:
            return ()
        destination = {
            "Name": "oncely",
            "Enabled": True,
            "MatchingEventTypes": list(events.EVENT_TYPES),
            "EventBridgeDestination": {"EventBusArn": event_bus},
        }
        return (
            StackResource(
                id="ConfigurationSet",
                type="AWS::SES::ConfigurationSet",
                properties={"Name": name},
                setting="configuration_set",
            ),
            StackResource(
                id="Events",
                type="AWS::SES::ConfigurationSetEventDestination",
                properties={"ConfigurationSetName": name, "EventDestination": destination},
            ),
        )

    def iam_grants(self, settings: SesSettings) -> tuple[IamGrant, ...]:
        """Allow email from the sender's address only, with its configuration set.

        SES authorizes the sender's identity, which may be a parent domain, the configuration set
        and, in the SES sandbox, the recipient's identity. Synthesis knows only the sender, so the
        condition is on its address.
        """
        if settings.sender_address is None:
            return ()
        _, address = parseaddr(settings.sender_address)
        return tuple(
            IamGrant(
                actions=("ses:SendEmail",),
                service="ses",
                resource=resource,
                string_equals={"ses:FromAddress": address},
                reason="The condition on ses:FromAddress limits it to one sender.",
            )
            for resource in ("identity/*", f"configuration-set/{settings.configuration_set or '*'}")
        )


SES: Final = SesPlugin()
