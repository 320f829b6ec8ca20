"""What Amazon SES documents of idempotency, lags, limits and errors."""

from datetime import date
from typing import Final

from oncely.plugins.facts import Fact, ProviderFacts, Sdk

_READ: Final = date(2026, 11, 18)
_COMMON_ERRORS: Final = (
    "https://docs.aws.amazon.com/awsconsolehelpdocs/latest/gsg/common-errors.html"
)

FACTS: Final = ProviderFacts(
    facts=(
        Fact(
            says=(
                "SendEmail takes no idempotency token. No call finds an email by an id of ours: "
                "GetMessageInsights needs the `MessageId`, which is lost with the response."
            ),
            read=_READ,
            does="Sends an email at most once. If its response is lost, it waits for the event.",
        ),
        Fact(
            says="The retry mode `standard` of boto3 makes up to 3 attempts of a request.",
            source="https://boto3.amazonaws.com/v1/documentation/api/1.26.2/guide/retries.html",
            read=_READ,
            does="Sends with 1: a dropped connection could otherwise send 3 emails.",
        ),
        Fact(
            says=(
                "An account in SES's sandbox may send 1 email a second. Outside of it, the rate "
                "depends on the account."
            ),
            source="https://docs.aws.amazon.com/ses/latest/dg/quotas.html",
            read=_READ,
        ),
        Fact(
            of="request rate",
            says="AWS names no rate to begin with outside of the sandbox. Others report 14.",
            read=_READ,
            does=(
                "Sends 14 effects a second. If `oncely doctor` shows another limit, set "
                "`ses_effects_per_second`."
            ),
        ),
        Fact(
            says="Events are delivered at best effort: one may be missing, or out of order.",
            source="https://docs.aws.amazon.com/ses/latest/dg/monitoring-eventbridge.html",
            read=_READ,
            does=(
                "Takes a `Send` event with our tags as proof that the email was sent, and a "
                "missing event as nothing. It also expects late and repeated events."
            ),
        ),
        Fact(
            says=(
                "The value of a tag has at most 256 characters: ASCII letters, digits, "
                "underscores and dashes."
            ),
            source="https://docs.aws.amazon.com/goto/WebAPI/email-2010-12-01/MessageTag",
            read=_READ,
            does=(
                "Tags each email with its job key, and a keyed digest of deployment, job key and "
                "fence."
            ),
        ),
        Fact(
            says=(
                "`BadRequestException` and `MessageRejected` are about an email, or about the "
                "account if the message says “not verified”, “paused”, “suspended” or "
                "“configuration set”. `LimitExceededException`, `TooManyRequestsException` and the "
                "`Throttling`, `ThrottlingException` and `RequestThrottled` of all AWS services "
                "are about the rate. The texts are not documented."
            ),
            read=_READ,
            does="Reads all of them as not sent, and declines only what is about the email.",
        ),
        Fact(
            says=(
                "About the account or the request's signature: `AccessDeniedException`, "
                "`ExpiredTokenException`, `IncompleteSignature`, `NotAuthorized`, `OptInRequired`, "
                "`RequestExpired`, `UnrecognizedClientException`."
            ),
            source=_COMMON_ERRORS,
            read=_READ,
            does="Reads them as not sent. One alarm is raised, and nothing is sent until it ends.",
        ),
        Fact(
            says=(
                "The same, by other names or for SES alone: `AccessDenied`, `ExpiredToken`, "
                "`InvalidClientTokenId`, `InvalidSignatureException`, "
                "`MissingAuthenticationToken`, `SignatureDoesNotMatch`, `ValidationException`, "
                "`AccountSendingPausedException`, `AccountSuspendedException`, "
                "`ConfigurationSetDoesNotExist`, `ConfigurationSetDoesNotExistException`, "
                "`ConfigurationSetSendingPausedException`, `MailFromDomainNotVerifiedException`, "
                "`NotFoundException`, `SendingPausedException`."
            ),
            does="The same.",
        ),
    ),
    sdk=Sdk(
        package="botocore",
        version="1.44.0",
        read=_READ,
        knows={
            "GetMessageInsights": "the only call that reads an email, by the `MessageId` of SES",
            "retry_mode = standard": "by default boto3 repeats a request; Oncely: never",
            "AccountSuspendedException": "an error of SendEmail: about the account",
            "BadRequestException": "an error of SendEmail: about the email, or its settings",
            "LimitExceededException": "an error of SendEmail: about the rate",
            "MailFromDomainNotVerifiedException": "an error of SendEmail: about the account",
            "MessageRejected": "an error of SendEmail: about the email, or the account",
            "NotFoundException": "an error of SendEmail: about the settings",
            "SendingPausedException": "an error of SendEmail: about the account",
            "TooManyRequestsException": "an error of SendEmail: about the rate",
        },
    ),
    notes=(
        (
            "SES drops idle connections, and a frozen Lambda does not notice. Each email uses its "
            "own connection."
        ),
    ),
)
