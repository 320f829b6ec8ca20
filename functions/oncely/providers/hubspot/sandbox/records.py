"""What the ledger keeps of HubSpot: contacts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Contact:
    """One contact of the CRM; a change makes a new version."""

    contact_id: str
    properties: Mapping[str, str]
    created: datetime
    updated: datetime
    archived: bool = False
    writes: int = 0  # through the API; what people do in the CRM is not counted
