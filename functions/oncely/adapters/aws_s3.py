"""Errors of S3 as the core's own: worth another try, or to be set right first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import ClientError

from oncely.adapters.aws import NO_ANSWER, code_of, is_temporary
from oncely.domain.errors import NotConfiguredError, UnavailableError

_BUSY: Final = frozenset({"SlowDown", "InternalError", "503", "500"})


@contextmanager
def translated(bucket: str) -> Iterator[None]:
    """Turn what S3 says about a bucket into an error that says what to do."""
    try:
        yield
    except NO_ANSWER as error:
        raise UnavailableError(f"S3 gave no answer about bucket {bucket!r}: {error}") from error
    except ClientError as error:
        code = code_of(error)
        if code in _BUSY or is_temporary(error):
            raise UnavailableError(f"S3 could not serve bucket {bucket!r} now ({code})") from error
        raise NotConfiguredError(
            f"bucket {bucket!r} cannot be used ({code}): check that it exists and is granted"
        ) from error
