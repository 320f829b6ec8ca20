"""Faults of one call to a fake provider."""

from enum import StrEnum


class ProviderFault(StrEnum):
    """A fault of one call, for `fail_next` of a fake."""

    TIMEOUT_BEFORE = "timeout_before"  # not performed, and the caller cannot know
    TIMEOUT_AFTER = "timeout_after"  # performed, and the caller cannot know
    REFUSED_CONNECTION = "refused_connection"  # certainly not performed
    DECLINED = "declined"  # a definite decline
    SERVER_ERROR = "server_error"  # not performed, answered with a 500 that is kept for the key
    UNAUTHORIZED = "unauthorized"  # the API key is rejected: certainly not performed
