"""Who is at the keyboard: the name that a repair is recorded under."""

from typing import Final

from oncely.cli.stack_connection import StackConnection
from oncely.domain.text import single_line

# A name is cut at 128 characters when it is kept, and AWS's own may have 64 of them.
_MAX_GIVEN_LENGTH: Final = 45


def caller_name(stack: StackConnection, given_name: str | None) -> str:
    """The name that AWS knows; a name that was given stands before it, and hides nothing."""
    arn = str(stack.client("sts").get_caller_identity()["Arn"])
    # arn:aws:iam::1:user/ada, arn:aws:sts::1:assumed-role/Operator/ada@example.com, …:root
    known = arn.rpartition("/")[2] if "/" in arn else arn.rpartition(":")[2]
    if given_name is None:
        return known
    return f"{single_line(given_name, _MAX_GIVEN_LENGTH)} (signed in as {known})"
