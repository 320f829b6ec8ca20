"""Faults of one call to a provider, as unit tests name them."""

from enum import StrEnum


class ProviderFault(StrEnum):
    """A fault of one call, for `fail_next` of a provider in tests."""

    TIMEOUT_BEFORE = "timeout_before"  # not performed, and the caller cannot know
    TIMEOUT_AFTER = "timeout_after"  # performed, and the caller cannot know
    ARRIVES_LATE = "arrives_late"  # performed `late_by` after the call, which timed out
    REFUSED_CONNECTION = "refused_connection"  # certainly not performed
    DECLINED = "declined"  # a definite decline
    # Each is answered with a 500, which a repeated key gets again if it was stored.
    SERVER_ERROR = "server_error"  # not performed, and stored
    SERVER_ERROR_AFTER = "server_error_after"  # performed, and stored
    SERVER_ERROR_UNSTORED = "server_error_unstored"  # not performed, and not stored
    UNAUTHORIZED = "unauthorized"  # the API key is rejected: certainly not performed
