"""What AWS, or the lack of it, means for the person at the keyboard: one sentence each."""

from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as AwsConnectionError

from oncely.aws.errors import error_code

_SIGN_IN: Final = "sign in (`aws sso login`, or set AWS_PROFILE, or give --profile)"
_NOT_SIGNED_IN: Final = (
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
_SESSION_EXPIRED: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
    }
)
_UNKNOWN_CREDENTIALS: Final = frozenset(
    {
        "AuthFailure",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_NOT_ALLOWED: Final = ("AccessDenied", "AuthorizationError", "UnauthorizedOperation")


def describe_aws_error(error: BotoCoreError | ClientError) -> str:
    """What is wrong, and what to do."""
    match error:
        case ProfileNotFound():
            return f"{error}: `aws configure list-profiles` lists those there are."
        case NoRegionError():
            return "No AWS region is set: give --region, or set AWS_REGION."
        case ClientError():
            return _describe_client_error(error)
        case _ if isinstance(error, _NOT_SIGNED_IN):
            return f"You are not signed in to AWS: {_SIGN_IN}."
        case AwsConnectionError() | HTTPClientError():
            return (
                f"AWS cannot be reached ({error}): check the network and AWS_ENDPOINT_URL; "
                "for --local, that `make local` is still running."
            )
        case _:
            return f"AWS cannot be used: {error}"


def _describe_client_error(error: ClientError) -> str:
    code, message = error_code(error), error.response.get("Error", {}).get("Message", "")
    if code in _SESSION_EXPIRED:
        return f"Your AWS session is over: {_SIGN_IN}."
    if code in _UNKNOWN_CREDENTIALS:
        return f"AWS does not know your credentials ({code}): {_SIGN_IN}."
    if code.startswith(_NOT_ALLOWED):
        return f"You may not do that: {message or code}"
    return f"AWS refused {error.operation_name} ({code}): {message}"
