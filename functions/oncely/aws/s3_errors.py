"""Errors of S3 as the core's own: worth another try, or to be set right first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import ClientError

from oncely.aws.client_config import AMBIGUOUS_ERRORS, error_code, is_retryable
from oncely.domain.errors import NotConfiguredError, UnavailableError

_THROTTLED_CODES: Final = frozenset({"SlowDown", "InternalError", "503", "500"})


@contextmanager
def translate_s3_errors(bucket: str) -> Iterator[None]:
    """Turn what S3 says about a bucket into an error that says what to do."""
    try:
        yield
    except AMBIGUOUS_ERRORS as error:
        raise UnavailableError(f"S3 gave no answer about bucket {bucket!r}: {error}") from error
    except ClientError as error:
        code = error_code(error)
        if code in _THROTTLED_CODES or is_retryable(error):
            raise UnavailableError(f"S3 could not serve bucket {bucket!r} now ({code})") from error
        raise NotConfiguredError(
            f"bucket {bucket!r} cannot be used ({code}): check that it exists and is granted"
        ) from error
