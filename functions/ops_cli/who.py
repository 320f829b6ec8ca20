"""Who is at the keyboard: the name that a repair is recorded under."""

from ops_cli.place import Place


def actor(place: Place, given: str | None) -> str:
    """The name that AWS knows; a name that was given stands before it, and hides nothing."""
    arn = str(place.client("sts").get_caller_identity()["Arn"])
    # arn:aws:iam::1:user/ada, arn:aws:sts::1:assumed-role/Operator/ada@example.com, …:root
    known = arn.rpartition("/")[2] if "/" in arn else arn.rpartition(":")[2]
    return known if given is None else f"{given} (signed in as {known})"
