"""Two people who may sign in to the admin page of a stack on this machine."""

from typing import Final

from oncely_local.stack import LocalStack

# By group: one reads, the other repairs as well.
SAMPLE_USERS: Final = {"support": "sam@example.com", "operator": "olga@example.com"}
SAMPLE_PASSWORD: Final = "Only-on-this-machine-1"  # noqa: S105  # printed for whoever starts the stack
_POOL: Final = "UserPoolId"


def create_sample_users(stack: LocalStack) -> None:
    """Add both, with a password that they need not change."""
    cognito = stack.account.client("cognito-idp")
    for group, name in SAMPLE_USERS.items():
        user = {"UserPoolId": stack.outputs[_POOL], "Username": name}
        cognito.admin_create_user(
            **user, TemporaryPassword=SAMPLE_PASSWORD, MessageAction="SUPPRESS"
        )
        cognito.admin_set_user_password(**user, Password=SAMPLE_PASSWORD, Permanent=True)
        cognito.admin_add_user_to_group(**user, GroupName=group)
