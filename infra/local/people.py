"""Two people who may sign in to the admin page of a stack on this machine."""

from typing import Final

from infra.local.stack import LocalStack

# By group: one reads, the other repairs as well.
PEOPLE: Final = {"support": "sam@example.com", "operator": "olga@example.com"}
PASSWORD: Final = "Only-on-this-machine-1"  # noqa: S105  # printed for whoever starts the stack
_POOL: Final = "UserPoolId"


def let_people_in(stack: LocalStack) -> None:
    """Add both, with a password that they need not change."""
    people = stack.account.client("cognito-idp")
    for group, name in PEOPLE.items():
        who = {"UserPoolId": stack.outputs[_POOL], "Username": name}
        people.admin_create_user(**who, TemporaryPassword=PASSWORD, MessageAction="SUPPRESS")
        people.admin_set_user_password(**who, Password=PASSWORD, Permanent=True)
        people.admin_add_user_to_group(**who, GroupName=group)
