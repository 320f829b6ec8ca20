"""Whether SES sends receipts: the account's state, and whether the sender is verified."""

from collections.abc import Iterator
from email.utils import parseaddr
from typing import Any, Final

from botocore.exceptions import ClientError

from oncely.aws.errors import error_code
from oncely.cli.checkup.deployed import AwsDescription, DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed, warned

_PRODUCTION_ACCESS: Final = (
    "request production access in the SES console (Account dashboard); until then verify each "
    "recipient: aws sesv2 create-email-identity --email-identity …"
)


def check_mail_account(deployed: DeployedStack) -> Iterator[Finding]:
    """The account: whether it may send, and to whom."""
    if _sender_address(deployed) is None:
        return
    check = "mail"
    account: AwsDescription = deployed.connection.client("sesv2").get_account()
    if not account.get("SendingEnabled", True):
        yield failed(
            check,
            "SES does not send for this account: sending is paused",
            "see why in the SES console (Account dashboard), then: "
            "aws sesv2 put-account-sending-attributes --sending-enabled",
        )
    elif account.get("EnforcementStatus") == "PROBATION":
        yield warned(
            check,
            "AWS reviews this account's mail, and may stop it",
            "read the case in the SES console (Reputation metrics)",
        )
    if account.get("ProductionAccessEnabled"):
        yield passed(check, "the account may send to any address")
        return
    # A production stack mails customers, whose addresses nobody verified.
    finding = failed if deployed.connection.name.endswith("-prod") else warned
    yield finding(
        check,
        "the account is in the SES sandbox: it sends only to verified addresses, and other "
        "receipts wait",
        _PRODUCTION_ACCESS,
    )


def check_sender(deployed: DeployedStack) -> Iterator[Finding]:
    """The address that receipts come from: verified itself, or through a domain above it."""
    address = _sender_address(deployed)
    if address is None:
        return
    check, client = f"sender {address}", deployed.connection.client("sesv2")
    known: dict[str, AwsDescription] = {}
    for identity in _identities(address):
        if (found := _identity(client, identity)) is None:
            continue
        known[identity] = found
        if found.get("VerifiedForSendingStatus"):
            yield passed(check, f"verified through {identity}")
            return
    for identity, found in known.items():
        yield failed(
            check,
            f"{identity} is not verified yet ({found.get('VerificationStatus', 'unknown')}): "
            "no receipt is sent",
            "open the link in the mail that AWS sent there"
            if "@" in identity
            else "publish the DNS records that the SES console shows for it",
        )
    if not known:
        yield failed(
            check,
            "SES does not know it, nor its domain, in this region: no receipt is sent",
            f"aws sesv2 create-email-identity --email-identity {address}, "
            "then open the link in the mail that AWS sends there",
        )


def _sender_address(deployed: DeployedStack) -> str | None:
    """The address without its display name. None if receipts are off, or SES is a sandbox here."""
    if deployed.connection.is_local:
        return None
    for function in deployed.functions:
        variables = function.get("Environment", {}).get("Variables", {})
        if configured := variables.get("SES_SENDER_ADDRESS"):
            return parseaddr(configured)[1]
    return None


def _identities(address: str) -> Iterator[str]:
    """What SES may know the sender as: its address, its domain, and the domains above that."""
    yield address
    domain = address.rpartition("@")[2]
    while "." in domain:
        yield domain
        domain = domain.partition(".")[2]


def _identity(client: Any, name: str) -> AwsDescription | None:  # noqa: ANN401  # boto3's client
    try:
        found: AwsDescription = client.get_email_identity(EmailIdentity=name)
    except ClientError as error:
        if error_code(error) == "NotFoundException":
            return None
        raise
    return found
