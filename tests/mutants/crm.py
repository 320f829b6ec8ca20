"""Guards of what is believed of HubSpot."""

from typing import Final

from tests.mutants.mutation import Mutation

PUSH: Final = "functions/oncely/jobs/sync_push.py"
ANSWERS: Final = "functions/oncely/providers/hubspot/responses.py"
DECIDE: Final = "functions/oncely/domain/decide.py"
HUBSPOT: Final = "functions/oncely/providers/hubspot/crm.py"
PATHS: Final = "functions/oncely/providers/hubspot/paths.py"
ADDRESSES: Final = ("tests/integration/test_hubspot_paths.py",)
LINKS: Final = ("tests/unit/test_sync_push_link.py",)
ADAPTER: Final = ("tests/integration/test_hubspot_crm.py",)

CRM: Final = (
    Mutation(
        "an existing contact counts as no answer",
        ANSWERS,
        "return _parse_taken(error_body, reason, id_property=id_property) or Ambiguous(",
        "return Ambiguous(",
        ADAPTER,
    ),
    Mutation(
        "the contact of another record is linked",
        PUSH,
        "    if contact.external_id:\n",
        "    if not contact.record_id:\n",
        LINKS,
    ),
    Mutation(
        "a contact with another address is linked",
        PUSH,
        "if not ours or ours != _normalized_email(",
        "if not ours and ours != _normalized_email(",
        LINKS,
    ),
    Mutation(
        "a contact is linked without an address",
        PUSH,
        "if not ours or ours != _normalized_email(",
        "if ours != _normalized_email(",
        LINKS,
    ),
    Mutation(
        "a contact that was merged is linked",
        PUSH,
        "    if contact.record_id != existing:\n",
        "    if not contact.record_id:\n",
        LINKS,
    ),
    Mutation(
        "a contact that collides by any property is linked",
        PUSH,
        "as taken if not taken.properties - {\n                EMAIL_PROPERTY\n            }:",
        "as taken if taken.reason:",
        LINKS,
    ),
    Mutation(
        "a record with a contact of its own is linked to another",
        PUSH,
        "case CrmConflict() as taken if crm_id is not None:",
        "case CrmConflict() as taken if not call.job:",
        LINKS,
    ),
    Mutation(
        "our own contact is written again with the same version",
        PUSH,
        "_version(contact) >= facts.version",
        "_version(contact) > facts.version",
        LINKS,
    ),
    Mutation(
        "a contact is linked after the time is up",
        PUSH,
        "        if not call.has_time_for(HUBSPOT.profile.request_timeout):\n"
        "            return _OUT_OF_TIME\n"
        "        match self._push(call, existing):",
        "        match self._push(call, existing):",
        LINKS,
    ),
    Mutation(
        "a deleted contact is not pushed by our id",
        PUSH,
        "return self._push_by_our_id(call)",
        'return Ambiguous("gone")',
        LINKS,
    ),
    Mutation(
        "a request that is too large is sent again",
        ANSWERS,
        "    if status in _TOO_LARGE:\n",
        "    if status is None and _TOO_LARGE:\n",
        ADAPTER,
    ),
    Mutation(
        "any 404 says that a contact is gone",
        ANSWERS,
        "return http_status(error) == _NOT_FOUND and _parse_error_body(error) is not None",
        "return http_status(error) == _NOT_FOUND",
        ADAPTER,
    ),
    Mutation(
        "a wait that a provider asks for counts as age",
        DECIDE,
        "        changes |= _add_paused_seconds(job, delay)\n",
        "        changes |= {}\n",
        ("tests/unit/test_decide.py",),
    ),
    Mutation(
        "a question that a provider puts off counts as age",
        DECIDE,
        "due_at=now + delay, **_add_paused_seconds(job, delay))",
        "due_at=now + delay)",
        ("tests/unit/test_decide.py",),
    ),
    Mutation(
        "a message is handed back for hours",
        DECIDE,
        "row_resends = delay > MAX_REDELIVERY_DELAY",
        "row_resends = delay > MAX_RETRY_AFTER * 2",
        ("tests/unit/test_decide.py",),
    ),
    Mutation(
        "a message whose row sends the next one is handed back",
        "functions/oncely/run/process_batch.py",
        "        case NotAttempted(row_resends=True):\n            return Ack()\n",
        "",
        ("tests/unit/test_message_actions.py",),
    ),
    Mutation(
        "a spent daily limit is tried again at once",
        ANSWERS,
        "    if _is_daily_limit(error):\n        return time_until_next",
        "    if not error:\n        return time_until_next",
        ADAPTER,
    ),
    Mutation(
        "a spent daily limit raises no alarm",
        ANSWERS,
        ", credentials_rejected=_is_daily_limit(error)",
        "",
        ADAPTER,
    ),
    Mutation(
        "an id of dots reaches the path",
        PATHS,
        "return not plain or not _DOT_SEGMENTS.isdisjoint(_SEPARATORS.split(plain))",
        "return not plain",
        ADDRESSES,
    ),
    Mutation(
        "encoded dots reach the path",
        PATHS,
        "        plain = decoded\n",
        "        break\n",
        ADDRESSES,
    ),
    Mutation(
        "an id becomes several segments of the path",
        PATHS,
        "quote(value, safe='')",
        "quote(value)",
        ADDRESSES,
    ),
    Mutation(
        "any text is the id of a contact",
        HUBSPOT,
        "    if crm_id is not None and not is_contact_id(crm_id):\n",
        "    if crm_id is None and not is_contact_id(external_id):\n",
        ADDRESSES,
    ),
    Mutation(
        "a rejected key counts as one that could not be checked",
        "functions/oncely/providers/hubspot/api_key.py",
        "False if status in _REJECTED else None",
        "None",
        ("tests/integration/test_hubspot_keys.py",),
    ),
    Mutation(
        "a key that no header can hold is sent",
        "functions/oncely/providers/hubspot/api_key.py",
        "if not (api_key.isascii() and api_key.isprintable()):",
        "if not api_key.strip() and api_key:",
        ("tests/integration/test_hubspot_keys.py",),
    ),
)
