"""Checks that SES can send receipts: the account, the sender, and the events that prove them."""

from collections.abc import Iterator, Mapping
from email.utils import parseaddr
from typing import Any, Final

from oncely import Finding
from oncely.core.aws_errors import AWS_ERRORS, error_code
from oncely.providers.ses.events import EVENT_TYPES

_PRODUCTION_ACCESS: Final = (
    "request production access in the SES console (Account dashboard); until then verify each "
    "recipient: aws sesv2 create-email-identity --email-identity …"
)


def check_account(client: Any, *, is_production: bool) -> Iterator[Finding]:  # noqa: ANN401  # boto3's client
    """Check whether the account can send, and to whom."""
    check = "mail"
    account = client.get_account()
    if not account.get("SendingEnabled", True):
        yield Finding.failed(
            check,
            "SES sending is paused for this account",
            "read why in the SES console (Account dashboard), then run: "
            "aws sesv2 put-account-sending-attributes --sending-enabled",
        )
    elif account.get("EnforcementStatus") == "PROBATION":
        yield Finding.warned(
            check,
            "AWS is reviewing this account's email and may pause it",
            "read the case in the SES console (Reputation metrics)",
        )
    if account.get("ProductionAccessEnabled"):
        yield Finding.passed(check, "the account can send to any address")
        return
    # A production stack sends to customers, whose addresses are not verified.
    finding = Finding.failed if is_production else Finding.warned
    yield finding(
        check,
        "the account is in the SES sandbox: it sends only to verified addresses, and other "
        "receipts are on hold",
        _PRODUCTION_ACCESS,
    )


def check_sender(client: Any, sender: str) -> Iterator[Finding]:  # noqa: ANN401  # boto3's client
    """Check that the sender address, its domain or a parent domain is verified."""
    address = parseaddr(sender)[1]
    check = f"sender {address}"
    known: dict[str, Mapping[str, Any]] = {}
    for identity in _identities(address):
        if (details := _identity(client, identity)) is None:
            continue
        known[identity] = details
        if details.get("VerifiedForSendingStatus"):
            yield Finding.passed(check, f"verified through {identity}")
            return
    for identity, details in known.items():
        yield Finding.failed(
            check,
            f"{identity} is not verified yet ({details.get('VerificationStatus', 'unknown')}): "
            "no receipts are sent",
            "open the link in the email from AWS"
            if "@" in identity
            else "publish the DNS records that the SES console shows for it",
        )
    if not known:
        yield Finding.failed(
            check,
            "neither it nor its domain is registered with SES in this region: no receipts are sent",
            f"aws sesv2 create-email-identity --email-identity {address}, "
            "then open the link in the email from AWS",
        )


def _identities(address: str) -> Iterator[str]:
    yield address
    domain = address.rpartition("@")[2]
    while "." in domain:
        yield domain
        domain = domain.partition(".")[2]


def _identity(client: Any, name: str) -> Mapping[str, Any] | None:  # noqa: ANN401  # boto3's client
    try:
        details: Mapping[str, Any] = client.get_email_identity(EmailIdentity=name)
    except AWS_ERRORS as error:
        if error_code(error) == "NotFoundException":
            return None
        raise
    return details


def check_events(client: Any, configuration_set: str) -> Iterator[Finding]:  # noqa: ANN401  # boto3's client
    """Check that the configuration set publishes the events that prove receipts."""
    check = f"events of {configuration_set}"
    try:
        found = client.get_configuration_set_event_destinations(
            ConfigurationSetName=configuration_set
        )
    except AWS_ERRORS as error:
        if error_code(error) != "NotFoundException":
            raise
        yield Finding.failed(
            check, "the configuration set does not exist: no receipts are sent", "deploy again"
        )
        return
    published = {
        type_
        for one in found.get("EventDestinations", ())
        if one.get("Enabled") and "EventBridgeDestination" in one
        for type_ in one.get("MatchingEventTypes", ())
    }
    if missing := sorted(set(EVENT_TYPES) - published):
        yield Finding.warned(
            check,
            f"{', '.join(missing)} events do not reach EventBridge: receipts without a response "
            "need an operator",
            "deploy again, or add them to your event destination for the default event bus",
        )
    else:
        yield Finding.passed(check, "events prove receipts whose response was lost")
