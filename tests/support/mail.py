"""A mailer in memory, with faults as its arguments, and a client for an SES on this machine."""

from functools import cache
from typing import TYPE_CHECKING, Final

import boto3
from botocore.config import Config

from oncely.providers.ses.mailer import NO_RETRIES, SesMailer

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client

SENDER: Final = "receipts@oncely.example"


def ses_mailer(url: str, *, sender: str = SENDER, config: Config = NO_RETRIES) -> SesMailer:
    return SesMailer(new_client=lambda: ses_client(url, config=config), sender=sender)


def ses_client(url: str, *, config: Config | None) -> "SESV2Client":
    """A client for another address. Pass None for boto3's own settings."""
    return _session().client("sesv2", endpoint_url=url, config=config)


@cache
def _session() -> boto3.Session:
    # Reading the description of a service takes longer than most tests.
    return boto3.Session(
        aws_access_key_id="test", aws_secret_access_key="test", region_name="eu-west-1"
    )
