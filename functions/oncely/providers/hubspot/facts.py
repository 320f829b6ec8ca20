"""What HubSpot documents of idempotency, lags, limits and errors."""

from datetime import date
from typing import Final

from oncely.plugins.facts import Fact, ProviderFacts

_READ: Final = date(2026, 11, 18)
_TIERS: Final = "https://developers.hubspot.com/apisbytier"
_ERRORS: Final = "https://developers.hubspot.com/docs/api-reference/error-handling"
_SEARCH: Final = "https://developers.hubspot.com/docs/api-reference/2026-03/crm/search-the-crm"

FACTS: Final = ProviderFacts(
    facts=(
        Fact(
            says="No idempotency keys are documented.",
            read=_READ,
            does="Gives each contact our id in a unique property, which replaces them.",
        ),
        Fact(
            says="An upsert finds the contact by a unique property, and creates or updates it.",
            source=(
                "https://developers.hubspot.com/docs/api-reference/legacy/crm/objects/contacts/"
                "batch/upsert-contacts"
            ),
            read=_READ,
            does="Pushes by upsert, so a repeat changes nothing.",
        ),
        Fact(
            of="lookup lag",
            says="Nothing is documented of a lag of reads by a unique property.",
            read=_READ,
            does="Assumes that they see a write at once, and adds a margin of 10 seconds.",
        ),
        Fact(
            says=(
                "A search may take a few moments to show new and changed contacts, ends at 10,000 "
                "results, and is limited to 5 requests a second."
            ),
            source=_SEARCH,
            read=_READ,
            does=(
                "Pages the list by id, and takes no result as proof that an effect did not happen."
            ),
        ),
        Fact(
            of="request rate",
            says=(
                "The smallest limit is that of free and Starter accounts: 100 requests in 10 "
                "seconds."
            ),
            source=_TIERS,
            read=_READ,
            does="Sends 7 effects and 3 lookups a second.",
        ),
        Fact(
            says="The daily limit is reset at midnight in the time zone of the account.",
            source=_TIERS,
            read=_READ,
            does=(
                "Does not know that time zone. Jobs on hold retry at 00:00, 06:00, 12:00 and 18:00 "
                "UTC. They spend no attempt and do not age, and one alarm is raised."
            ),
        ),
        Fact(
            says=(
                "A 429 names its limit in `policyName`, such as `DAILY` or `SECONDLY`. HubSpot's "
                "own SDKs also know `TEN_SECONDLY_ROLLING`."
            ),
            source=(
                "https://community.hubspot.com/t5/APIs-Integrations/"
                "Hubspot-User-experience/m-p/511719#M47812"
            ),
            read=_READ,
            does=(
                "Reads 429 as not performed, and waits as long as `Retry-After` or the limit's "
                "period says."
            ),
        ),
        Fact(
            says=(
                "423 means a lock of 2 seconds, 477 a migration of the account with a "
                "`Retry-After` of up to 24 hours, 401 and 403 a wrong or a weak API key, and 207 "
                "inputs of a batch with results of their own. For 429, no `Retry-After` is "
                "documented."
            ),
            source=_ERRORS,
            read=_READ,
            does="Reads all of these but 207 as not performed.",
        ),
        Fact(
            says="502, 503 and 504 ask for a pause, and do not say whether anything was written.",
            source=_ERRORS,
            read=_READ,
            does="Looks the contact up.",
        ),
        Fact(
            says=(
                "409 “Contact already exists. Existing ID: …” has the category `CONFLICT`, and "
                "wrote nothing. HubSpot's reference does not describe it."
            ),
            source="https://github.com/HubSpot/hubspot-api-nodejs/issues/545",
            read=_READ,
            does=(
                "Reads that contact by its id, and links it if it has the record's email and none "
                "of our ids. Otherwise the job needs review, and the reason contains the id."
            ),
        ),
        Fact(
            says=(
                "An input of a batch fails with a category: `CONFLICT`, `OBJECT_ALREADY_EXISTS`, "
                "`OBJECT_NOT_FOUND`, `RATE_LIMITS` or `VALIDATION_ERROR`. No list of them was "
                "found."
            ),
            read=_READ,
            does="Reads them as 409, 409, 404, 429 and 400.",
        ),
        Fact(
            says="413 and 414 are not documented: the request is too large.",
            read=_READ,
            does="Declines the job, and never retries.",
        ),
        Fact(
            says=(
                "Versions v1 to v3 are unsupported from September 2027, and v4 from March 30, "
                "2027. Newer versions are dates, such as 2026-09."
            ),
            source=(
                "https://developers.hubspot.com/changelog/"
                "legacy-apis-and-legacy-apps-whats-going-unsupported-and-when"
            ),
            read=_READ,
            does="Uses v3, set once, in providers/hubspot/paths.py.",
        ),
    ),
    notes=(
        "Links to contacts need `hubspot_portal_id`, the number of your HubSpot account.",
        (
            "A contact id is a number, and our id is one segment of the path. Oncely sends no "
            "request for any other id, such as “..”. An import treats it as not found, and a push "
            "needs review."
        ),
        (
            "API keys of private apps start with “pat-”; service keys need not. `oncely doctor` "
            "reads one contact with the key, which needs the scope crm.objects.contacts.read. The "
            "jobs also need crm.objects.contacts.write."
        ),
        (
            "The unique property does not contain the deployment's identity, because a deployment "
            "that moves must find its contacts again. Two deployments on one HubSpot account need "
            "two properties."
        ),
        (
            "An import lists 100 contacts with each request, and fetches each version of a contact "
            "once. So the first import of 100,000 contacts takes 101,000 requests and about 4 "
            "hours. A version that was imported before takes no request."
        ),
        "Each request uses its own connection, as with SES.",
        (
            "404 on an update by id wrote nothing: the contact was deleted. Oncely then pushes the "
            "record by our unique id."
        ),
    ),
)
