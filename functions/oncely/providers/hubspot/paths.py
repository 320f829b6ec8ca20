"""The addresses of HubSpot's API: its one version, and no id that could lead elsewhere."""

import re
from typing import Final
from urllib.parse import quote, unquote

# HubSpot ends the support of v1 to v3 in September 2027. Its newer versions are dates, and stand
# at another place: /crm/objects/2026-09/contacts. This is the only line to change.
API_VERSION: Final = "v3"
CONTACTS: Final = f"/crm/{API_VERSION}/objects/contacts"
SEARCH: Final = f"{CONTACTS}/search"
UPSERT: Final = f"{CONTACTS}/batch/upsert"

_CONTACT_ID: Final = re.compile(r"[0-9]{1,20}")
# Proxies and clients resolve these, however they are spelled.
_DOT_SEGMENTS: Final = frozenset({".", ".."})
_SEPARATORS: Final = re.compile(r"[/\\]")


def is_contact_id(value: str) -> bool:
    """Whether this can be an id that HubSpot gave; all of them are numbers."""
    return _CONTACT_ID.fullmatch(value) is not None


def is_path_traversal(value: str) -> bool:
    """Whether an id could change the path that it stands in, even percent-encoded."""
    plain = value
    while (decoded := unquote(plain)) != plain:
        plain = decoded
    return not plain or not _DOT_SEGMENTS.isdisjoint(_SEPARATORS.split(plain))


def contact_path(value: str) -> str:
    """The address of one contact; every id is exactly one segment."""
    return f"{CONTACTS}/{quote(value, safe='')}"
