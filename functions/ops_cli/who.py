"""Who is at the keyboard: the name that a repair is recorded under."""

from typing import Final

from oncely.domain.text import one_line
from ops_cli.place import Place

# A name is cut at 128 characters when it is kept, and AWS's own may have 64 of them.
_LONGEST_GIVEN: Final = 45


def actor(place: Place, given: str | None) -> str:
    """The name that AWS knows; a name that was given stands before it, and hides nothing."""
    arn = str(place.client("sts").get_caller_identity()["Arn"])
    # arn:aws:iam::1:user/ada, arn:aws:sts::1:assumed-role/Operator/ada@example.com, …:root
    known = arn.rpartition("/")[2] if "/" in arn else arn.rpartition(":")[2]
    if given is None:
        return known
    return f"{one_line(given, _LONGEST_GIVEN)} (signed in as {known})"
