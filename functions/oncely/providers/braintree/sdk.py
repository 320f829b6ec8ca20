"""The parts of Braintree's SDK that Oncely uses. It has no types, and emits warnings on import."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from braintree import (  # type: ignore[import-untyped]  # no types
        BraintreeGateway,
        Configuration,
        DisputeSearch,
        Environment,
        TransactionSearch,
    )
    from braintree.error_codes import ErrorCodes  # type: ignore[import-untyped]  # no types
    from braintree.exceptions.authentication_error import (  # type: ignore[import-untyped]  # no types
        AuthenticationError,
    )
    from braintree.exceptions.authorization_error import (  # type: ignore[import-untyped]  # no types
        AuthorizationError,
    )
    from braintree.exceptions.braintree_error import (  # type: ignore[import-untyped]  # no types
        BraintreeError,
    )
    from braintree.exceptions.not_found_error import (  # type: ignore[import-untyped]  # no types
        NotFoundError,
    )
    from braintree.exceptions.too_many_requests_error import (  # type: ignore[import-untyped]  # no types
        TooManyRequestsError,
    )
    from braintree.util.http import Http  # type: ignore[import-untyped]  # no types

TransactionErrors = ErrorCodes.Transaction

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BraintreeError",
    "BraintreeGateway",
    "Configuration",
    "DisputeSearch",
    "Environment",
    "Http",
    "NotFoundError",
    "TooManyRequestsError",
    "TransactionErrors",
    "TransactionSearch",
]
