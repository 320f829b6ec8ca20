"""The Amazon SES plug-in."""

from collections.abc import Iterator
from datetime import timedelta
from email.utils import parseaddr
from typing import TYPE_CHECKING, Final

from oncely.domain.errors import NotConfiguredError
from oncely.domain.profiles import ProviderProfile
from oncely.health import Finding
from oncely.provider import IamGrant, Provider, ProviderAccess, ProviderSettings

if TYPE_CHECKING:
    from oncely.providers.interfaces import Mailer

PROFILE: Final = ProviderProfile(
    name="Amazon SES",
    request_timeout=timedelta(seconds=10),
    max_calls=1,
    key_scope="none: SES has neither idempotency keys nor lookups",
    facts=(
        "SendEmail has no idempotency token, and no API call returns whether an email was sent.",
        "With default retries, a client can send an email up to 3 times if the connection drops.",
        "SES's events contain the tag of an email: a digest of deployment, job key and fence.",
        (
            "An error about our account, such as an unverified sender, means that nothing was "
            "sent. It raises one alarm."
        ),
        (
            "SES drops idle connections, and a frozen Lambda does not notice. Each email uses its "
            "own connection."
        ),
    ),
)


class SesSettings(ProviderSettings):
    """The sender's address. Without one, no email is sent."""

    sender_address: str | None = None


class SesPlugin(Provider["Mailer", SesSettings]):
    """Email through Amazon SES."""

    name = "ses"
    profile = PROFILE
    settings_type = SesSettings
    has_api_key = False
    endpoint_env_var = "AWS_ENDPOINT_URL_SESV2"

    def connect(self, access: ProviderAccess[SesSettings]) -> "Mailer":
        """Build the mailer, which opens a client and a connection for each email."""
        from oncely.providers.ses.mailer import NO_RETRIES, SesMailer  # noqa: PLC0415

        sender, new_client = access.settings.sender_address, access.new_aws_client
        if sender is None or new_client is None:
            raise NotConfiguredError(
                f"no email can be sent: set {self.env_var('sender_address')} and deploy again"
            )
        return SesMailer(new_client=lambda: new_client("sesv2", NO_RETRIES), sender=sender)

    def is_configured(self, settings: SesSettings) -> bool:
        return settings.sender_address is not None

    def check_health(
        self, access: ProviderAccess[SesSettings], *, is_production: bool
    ) -> Iterator[Finding]:
        from oncely.providers.ses.health import check_account, check_sender  # noqa: PLC0415

        sender, new_client = access.settings.sender_address, access.new_aws_client
        if sender is not None and new_client is not None:
            client = new_client("sesv2")
            yield from check_account(client, is_production=is_production)
            yield from check_sender(client, sender)

    def iam_grants(self, settings: SesSettings) -> tuple[IamGrant, ...]:
        """Allow email from the sender's address only.

        SES authorizes the sender's identity, which may be a parent domain, its default
        configuration set and, in the SES sandbox, the recipient's identity. Synthesis knows only
        the sender, so the condition names it.
        """
        if settings.sender_address is None:
            return ()
        _, address = parseaddr(settings.sender_address)
        return tuple(
            IamGrant(
                actions=("ses:SendEmail",),
                service="ses",
                resource=f"{resource}/*",
                string_equals={"ses:FromAddress": address},
                reason="The condition on ses:FromAddress limits it to one sender.",
            )
            for resource in ("identity", "configuration-set")
        )


SES: Final = SesPlugin()
