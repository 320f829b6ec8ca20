"""HubSpot's contacts through its official SDK: one request a call, and its own words as truth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hubspot.crm.contacts import (  # type: ignore[import-untyped]  # it ships no types
    ApiClient,
    BasicApi,
    BatchApi,
    Configuration,
    SearchApi,
)
from urllib3 import Retry

from oncely.adapters.hubspot_answers import (
    FAILURES,
    body_of,
    is_missing,
    not_read,
    not_written,
    page_in,
    record_in,
    text_in,
    written,
)
from oncely.contracts.sync_push import ADDRESS, VERSION_PROPERTY
from oncely.domain.answers import Answer, NotSent, Unreachable
from oncely.domain.profiles import HUBSPOT
from oncely.providers import CrmRecord, Gone, Page, Taken

CONNECT_TIMEOUT: Final = timedelta(seconds=3)
# Until it is connected, and until it answers: in seconds, as the SDK wants them.
TIMEOUTS: Final = (
    CONNECT_TIMEOUT.total_seconds(),
    (HUBSPOT.request_timeout - CONNECT_TIMEOUT).total_seconds(),
)
CONNECTIONS: Final = 10  # as many as a worker may run jobs side by side
PAGE: Final = 100
# Named even when they are HubSpot's own choice: then every endpoint gives the same ones.
DEFAULT_PROPERTIES: Final = ("email", "firstname", "lastname")
DEFAULT_ID_PROPERTY: Final = "oncely_id"


def hubspot_client(token: str, *, api_base: str | None = None) -> ApiClient:
    """A client that never sends a request twice by itself."""
    configuration = Configuration(host=api_base)
    configuration.access_token = token
    # By default it sends a read four times, and sleeps as long as HubSpot asks it to.
    configuration.retries = Retry(0)
    configuration.connection_pool_maxsize = CONNECTIONS
    client = ApiClient(configuration)
    client.user_agent = "oncely"
    return client


@dataclass(frozen=True, kw_only=True)
class HubSpotCrm:
    """Contacts; those that are archived count as gone."""

    # Made once: each look at `client.crm.contacts` of the SDK would open connections of its own.
    client: ApiClient
    properties: Sequence[str] = DEFAULT_PROPERTIES
    id_property: str = DEFAULT_ID_PROPERTY
    timeouts: tuple[float, float] = TIMEOUTS
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @classmethod
    def with_token(
        cls,
        token: str,
        *,
        api_base: str | None = None,
        properties: Sequence[str] = (),
        id_property: str = DEFAULT_ID_PROPERTY,
    ) -> "HubSpotCrm":
        """Wire the SDK."""
        return cls(
            client=hubspot_client(token, api_base=api_base),
            properties=tuple(properties) or DEFAULT_PROPERTIES,
            id_property=id_property,
        )

    def fetch(self, record_id: str) -> CrmRecord | Gone | NotSent:
        """Read a contact by its id."""
        if not (record_id.isascii() and record_id.isdigit()):
            # HubSpot's ids are numbers, and a text such as `..` would lead to another address.
            return Gone()
        try:
            return record_in(body_of(self._get(record_id, properties=self.properties)))
        except FAILURES as error:
            return Gone() if is_missing(error) else not_read(error, self.now())

    def page(self, *, after: str | None) -> Page | NotSent:
        """List contacts, as HubSpot pages them."""
        behind = {} if after is None else {"after": after}
        try:
            response = BasicApi(self.client).get_page(
                limit=PAGE,
                properties=list(self.properties),
                archived=False,
                **behind,
                **self._plainly,
            )
            return page_in(body_of(response))
        except FAILURES as error:
            return not_read(error, self.now())

    def changed(self, *, since: datetime, after: str | None) -> Page | NotSent:
        """List contacts that changed since then, in the order of their ids.

        HubSpot's own cursor ends at 10,000 results. Ours is the last id seen: every page is the
        first page of a new search for those behind it, so that end is never met.
        """
        try:
            response = SearchApi(self.client).do_search(self._search(since, after), **self._plainly)
            page = page_in(body_of(response))
        except FAILURES as error:
            return not_read(error, self.now())
        more = page.after is not None and page.records
        return replace(page, after=page.records[-1].record_id if more else None)

    def push(
        self, external_id: str, properties: Mapping[str, str], *, crm_id: str | None = None
    ) -> Answer | Taken | Gone:
        """Create or update by our unique id; with HubSpot's own id, give that contact ours too."""
        own = {**properties, self.id_property: external_id}
        try:
            response = (
                self._upsert(external_id, own) if crm_id is None else self._patch(crm_id, own)
            )
            return written(response, own=self.id_property)
        except FAILURES as error:
            if crm_id is not None and is_missing(error):
                return Gone()
            return not_written(error, self.now(), own=self.id_property)

    def find(
        self, external_id: str, *, crm_id: str | None = None
    ) -> CrmRecord | Gone | Unreachable:
        """Read a contact by our unique id, or by its own, with our id and the version on it."""
        ours = (ADDRESS, self.id_property, VERSION_PROPERTY)
        names = tuple(dict.fromkeys((*self.properties, *ours)))
        by = {"id_property": self.id_property} if crm_id is None else {}
        try:
            body = body_of(self._get(crm_id or external_id, properties=names, **by))
            return replace(record_in(body), external_id=text_in(body, self.id_property))
        except FAILURES as error:
            if is_missing(error):
                return Gone()
            unread = not_read(error, self.now())
            return Unreachable(unread.reason, unread.retry_after)

    @property
    def _plainly(self) -> dict[str, Any]:
        # Its answer as it came: the SDK's models take a page of HTML for a contact without fields.
        return {"_preload_content": False, "_request_timeout": self.timeouts}

    def _get(self, value: str, *, properties: Sequence[str], **options: str) -> Any:  # noqa: ANN401  # untyped
        return BasicApi(self.client).get_by_id(
            value, properties=list(properties), archived=False, **options, **self._plainly
        )

    def _upsert(self, external_id: str, properties: Mapping[str, str]) -> Any:  # noqa: ANN401  # untyped
        one = {"id": external_id, "idProperty": self.id_property, "properties": dict(properties)}
        return BatchApi(self.client).upsert({"inputs": [one]}, **self._plainly)

    def _patch(self, crm_id: str, properties: Mapping[str, str]) -> Any:  # noqa: ANN401  # untyped
        return BasicApi(self.client).update(
            crm_id, {"properties": dict(properties)}, **self._plainly
        )

    def _search(self, since: datetime, after: str | None) -> dict[str, Any]:
        # Rounded down: rather a contact too many than one too few.
        milliseconds = str(int(since.timestamp() * 1000))
        filters = [
            {"propertyName": "lastmodifieddate", "operator": "GTE", "value": milliseconds},
            {"propertyName": "hs_object_id", "operator": "GT", "value": after or "0"},
        ]
        return {
            "filterGroups": [{"filters": filters}],
            "sorts": [{"propertyName": "hs_object_id", "direction": "ASCENDING"}],
            "properties": list(self.properties),
            "limit": PAGE,
        }
