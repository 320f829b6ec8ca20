"""The paths of HubSpot's API, with one API version and checked ids."""

import re
from typing import Final
from urllib.parse import quote, unquote

# HubSpot ends support for v1 to v3 in September 2027. Newer versions are dates in another
# position: /crm/objects/2026-09/contacts. Only the next two lines need to change.
API_VERSION: Final = "v3"
CONTACTS: Final = f"/crm/{API_VERSION}/objects/contacts"
SEARCH: Final = f"{CONTACTS}/search"
UPSERT: Final = f"{CONTACTS}/batch/upsert"

_CONTACT_ID: Final = re.compile(r"[0-9]{1,20}")
# Proxies and clients resolve these, even if percent-encoded.
_DOT_SEGMENTS: Final = frozenset({".", ".."})
_SEPARATORS: Final = re.compile(r"[/\\]")


def is_contact_id(value: str) -> bool:
    """Return whether this can be a HubSpot id. All of them are numbers."""
    return _CONTACT_ID.fullmatch(value) is not None


def is_path_traversal(value: str) -> bool:
    """Return whether an id could change the path that contains it, even if percent-encoded."""
    plain = value
    while (decoded := unquote(plain)) != plain:
        plain = decoded
    return not plain or not _DOT_SEGMENTS.isdisjoint(_SEPARATORS.split(plain))


def contact_path(value: str) -> str:
    """Return the path of one contact. The id is exactly one segment."""
    return f"{CONTACTS}/{quote(value, safe='')}"
