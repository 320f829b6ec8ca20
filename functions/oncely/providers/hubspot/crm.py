"""HubSpot's contacts over HTTP, with one request per call."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from urllib3 import PoolManager, Retry, Timeout

from oncely.core.effect_outcomes import Anomalous, EffectOutcome, LookupFailed, NotSent
from oncely.plugins.provider import INTERNET, UNGATED, Network, RequestGate
from oncely.plugins.request_deadline import CONNECT_TIMEOUT, apply_deadline, request_deadline
from oncely.providers.hubspot.paths import (
    CONTACTS,
    SEARCH,
    UPSERT,
    contact_path,
    is_contact_id,
    is_path_traversal,
)
from oncely.providers.hubspot.plugin import PROFILE
from oncely.providers.hubspot.responses import (
    REQUEST_ERRORS,
    check_status,
    is_not_found,
    parse_body,
    parse_page,
    parse_record,
    property_text,
    property_version,
    read_error,
    write_error,
    write_outcome,
)
from oncely.providers.interfaces import (
    EMAIL_PROPERTY,
    CrmConflict,
    CrmPage,
    CrmRecord,
    RecordNotFound,
)

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse  # missing before urllib3 2, which Lambda may bring

API_BASE: Final = "https://api.hubapi.com"
# Seconds to connect and to read. Their sum limits the whole request.
TIMEOUTS_SECONDS: Final = (
    CONNECT_TIMEOUT.total_seconds(),
    (PROFILE.request_timeout - CONNECT_TIMEOUT).total_seconds(),
)
PAGE_SIZE: Final = 100
# HubSpot's defaults, named explicitly so that every endpoint returns the same properties.
DEFAULT_PROPERTIES: Final = ("email", "firstname", "lastname")
DEFAULT_ID_PROPERTY: Final = "oncely_id"
DEFAULT_VERSION_PROPERTY: Final = "oncely_version"


class HubSpotClient:
    """HubSpot's API. It never retries a request, nor reuses a connection."""

    def __init__(
        self,
        token: str,
        *,
        api_base: str | None = None,
        gate: RequestGate = UNGATED,
        network: Network = INTERNET,
        timeouts: tuple[float, float] = TIMEOUTS_SECONDS,
    ) -> None:
        self._api_base = API_BASE if api_base is None else api_base
        self._gate, self._network = gate, network
        self._timeouts = timeouts
        self._pool = apply_deadline(PoolManager(), network)
        self._headers = {
            "Accept": "application/json",
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "User-Agent": "oncely",
        }

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
    ) -> "BaseHTTPResponse":
        """Send one request, and read its response. Raises one of REQUEST_ERRORS."""
        address = f"{self._api_base}{path}"
        connect, read = self._timeouts
        with (
            self._gate.request() as gated,
            request_deadline(timedelta(seconds=connect + read), self._network),
        ):
            response = self._pool.request(
                method,
                f"{address}?{urlencode(query)}" if query else address,
                body=None if body is None else json.dumps(body),
                headers=self._headers,
                timeout=Timeout(connect=connect, read=read),
                # Without it, urllib3 sends a read up to four times, and sleeps for any Retry-After.
                retries=Retry(0),
                preload_content=False,
            )
            _ = response.data  # read and cache the body within the deadline
            gated.status = response.status
        check_status(response)
        return response


@dataclass(frozen=True, kw_only=True)
class HubSpotCrm:
    """The contacts of a HubSpot account. Archived contacts count as not found.

    Each call is one request.
    """

    # Shared, because each client loads the trusted certificates.
    client: HubSpotClient
    properties: Sequence[str] = DEFAULT_PROPERTIES
    id_property: str = DEFAULT_ID_PROPERTY
    now: Callable[[], datetime] = INTERNET.now

    @classmethod
    def from_token(
        cls,
        token: str,
        *,
        api_base: str | None = None,
        properties: Sequence[str] = (),
        id_property: str = DEFAULT_ID_PROPERTY,
        gate: RequestGate = UNGATED,
        network: Network = INTERNET,
    ) -> "HubSpotCrm":
        return cls(
            client=HubSpotClient(token, api_base=api_base, gate=gate, network=network),
            properties=tuple(properties) or DEFAULT_PROPERTIES,
            id_property=id_property,
            now=network.now,
        )

    @property
    def version_property(self) -> str:
        """The property with our version: each id property, and so each deployment, has its own."""
        is_default = self.id_property == DEFAULT_ID_PROPERTY
        return DEFAULT_VERSION_PROPERTY + ("" if is_default else f"_{self.id_property}")

    def get_contact(self, record_id: str) -> CrmRecord | RecordNotFound | NotSent:
        """Read a contact by its id, with all its properties."""
        if not is_contact_id(record_id):
            return RecordNotFound()
        try:
            return parse_record(parse_body(self._get(record_id, self.properties)))
        except REQUEST_ERRORS as error:
            return RecordNotFound() if is_not_found(error) else read_error(error, self.now())

    def list_contacts(self, *, after: str | None) -> CrmPage | NotSent:
        """List contacts, 100 at a time."""
        cursor = () if after is None else (("after", after),)
        query = (("limit", str(PAGE_SIZE)), *cursor, *_property_query(self.properties))
        try:
            return parse_page(parse_body(self.client.call("GET", CONTACTS, query=query)))
        except REQUEST_ERRORS as error:
            return read_error(error, self.now())

    def list_changed(self, *, since: datetime, after: str | None) -> CrmPage | NotSent:
        """List contacts that changed since then, in the order of their ids.

        HubSpot's search ends at 10,000 results. Our cursor is the last id of a page: each page is
        the first page of a new search behind that id, so it never reaches the limit.
        """
        search = self._search(since, after)
        try:
            page = parse_page(parse_body(self.client.call("POST", SEARCH, body=search)))
        except REQUEST_ERRORS as error:
            return read_error(error, self.now())
        more = page.after is not None and page.records
        return replace(page, after=page.records[-1].record_id if more else None)

    def upsert_contact(
        self,
        external_id: str,
        properties: Mapping[str, str],
        *,
        version: int | None = None,
        crm_id: str | None = None,
    ) -> EffectOutcome | CrmConflict | RecordNotFound:
        """Create or update by our unique id. With a HubSpot id, also set our id on that contact.

        Returns `RecordNotFound` if no contact has this HubSpot id; then nothing was written.
        """
        if invalid := _invalid_id_outcome(external_id, crm_id):
            return invalid
        versioned = {} if version is None else {self.version_property: str(version)}
        own = {**properties, **versioned, self.id_property: external_id}
        try:
            if crm_id is None:
                one = {"id": external_id, "idProperty": self.id_property, "properties": own}
                response = self.client.call("POST", UPSERT, body={"inputs": [one]})
            else:
                response = self.client.call("PATCH", contact_path(crm_id), body={"properties": own})
            return write_outcome(response, id_property=self.id_property)
        except REQUEST_ERRORS as error:
            if crm_id is not None and is_not_found(error):
                return RecordNotFound()
            return write_error(error, self.now(), id_property=self.id_property)

    def find_by_external_id(
        self, external_id: str, *, crm_id: str | None = None
    ) -> CrmRecord | RecordNotFound | LookupFailed | Anomalous:
        """Read the contact with our external id, or the one with this HubSpot id.

        Returns `Anomalous` if the id cannot be in a request; then nothing was sent.
        """
        if invalid := _invalid_id_outcome(external_id, crm_id):
            return invalid
        ours = (EMAIL_PROPERTY, self.id_property, self.version_property)
        names = tuple(dict.fromkeys((*self.properties, *ours)))
        by = self.id_property if crm_id is None else None
        try:
            body = parse_body(self._get(crm_id or external_id, names, by=by))
            return replace(
                parse_record(body),
                external_id=property_text(body, self.id_property),
                version=property_version(body, self.version_property),
            )
        except REQUEST_ERRORS as error:
            if is_not_found(error):
                return RecordNotFound()
            failure = read_error(error, self.now())
            return LookupFailed(failure.reason, failure.retry_after)

    def _get(
        self, value: str, properties: Sequence[str], *, by: str | None = None
    ) -> "BaseHTTPResponse":
        named = () if by is None else (("idProperty", by),)
        return self.client.call(
            "GET", contact_path(value), query=(*named, *_property_query(properties))
        )

    def _search(self, since: datetime, after: str | None) -> dict[str, Any]:
        # Round down: an extra contact is harmless, a missing one is not.
        milliseconds = str(int(since.timestamp() * 1000))
        filters = [
            {"propertyName": "lastmodifieddate", "operator": "GTE", "value": milliseconds},
            {"propertyName": "hs_object_id", "operator": "GT", "value": after or "0"},
        ]
        return {
            "filterGroups": [{"filters": filters}],
            "sorts": [{"propertyName": "hs_object_id", "direction": "ASCENDING"}],
            "properties": list(self.properties),
            "limit": PAGE_SIZE,
        }


def _property_query(properties: Sequence[str]) -> Sequence[tuple[str, str]]:
    return (*(("properties", name) for name in properties), ("archived", "false"))


def _invalid_id_outcome(external_id: str, crm_id: str | None) -> Anomalous | None:
    if crm_id is not None and not is_contact_id(crm_id):
        return Anomalous(f"{crm_id[:50]!r} is not the id of a HubSpot contact; nothing was sent")
    if is_path_traversal(external_id):
        shown = external_id[:50]
        return Anomalous(f"the id {shown!r} would change the request path; nothing was sent")
    return None
