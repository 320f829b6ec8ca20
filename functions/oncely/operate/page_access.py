"""Access to the admin page: its groups, their users now, and how typed text is logged."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import AWS_ERRORS, error_code, translated

if TYPE_CHECKING:
    from mypy_boto3_cognito_idp import CognitoIdentityProviderClient

SUPPORT_GROUP: Final = "support"  # reads
OPERATOR_GROUP: Final = "operator"  # reads, repairs and exports


@dataclass(frozen=True)
class TextDigester:
    """Digests typed text. Only with the key can it be recognized, or guessed."""

    read_key: Callable[[], str]

    def digest(self, text: str) -> str:
        # A lone surrogate can be typed into a URL.
        content = text.strip().encode("utf-8", "surrogatepass")
        return hmac.new(self.read_key().encode(), content, "sha256").hexdigest()


@dataclass(frozen=True)
class CognitoUserDirectory:
    """The users of one user pool."""

    client: "CognitoIdentityProviderClient"
    pool_id: str

    def groups(self, user: str) -> frozenset[str]:
        """The groups of a user. Empty if the user is disabled or was deleted."""
        check = "that this role may read its users"
        with translated("the user pool", name=self.pool_id, check=check):
            try:
                return self._groups(user)
            except AWS_ERRORS as error:
                if error_code(error) == "UserNotFoundException":
                    return frozenset()
                raise

    def _groups(self, user: str) -> frozenset[str]:
        # The groups of a disabled user stay.
        if not self.client.admin_get_user(UserPoolId=self.pool_id, Username=user)["Enabled"]:
            return frozenset()
        pages = self.client.get_paginator("admin_list_groups_for_user").paginate(
            UserPoolId=self.pool_id, Username=user
        )
        return frozenset(group["GroupName"] for page in pages for group in page["Groups"])
