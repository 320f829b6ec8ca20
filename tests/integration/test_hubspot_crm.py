"""The HubSpot adapter under every faulty response, over real sockets."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
from urllib3 import HTTPResponse, PoolManager

from oncely.core.effect_outcomes import Ambiguous, Declined, LookupFailed, NotSent, Succeeded
from oncely.providers.hubspot.crm import HubSpotClient, HubSpotCrm
from oncely.providers.hubspot.paths import CONTACTS
from oncely.providers.interfaces import CrmConflict, CrmPage, CrmRecord, RecordNotFound
from oncely.testing.sandbox import FaultKind
from oncely_local.engine import free_port
from tests.integration.faulty_sends import FAULTY_SENDS
from tests.support.fakes import START
from tests.support.shipped_sandbox import ShippedSandbox
from tests.support.tls import busy_server, untrusted_server

MINE = "hubspot#4419"
GRACE = {"firstname": "Grace"}
EVERY_FAULT = [kind for kind in FaultKind if kind is not FaultKind.SLOW]


@pytest.fixture
def sandbox() -> Iterator[ShippedSandbox]:
    with ShippedSandbox(clock=lambda: START) as running:
        yield running


@pytest.fixture
def crm(sandbox: ShippedSandbox) -> HubSpotCrm:
    return short_timeout_crm(sandbox.url)


def short_timeout_crm(url: str) -> HubSpotCrm:
    client = HubSpotClient("pat-test-1", api_base=url, timeouts=(0.3, 0.3))
    return HubSpotCrm(client=client)


@pytest.mark.parametrize("by_its_own_id", [False, True])
@pytest.mark.parametrize(("fault", "expected", "writes"), FAULTY_SENDS)
def test_faulty_push_makes_one_request_and_at_most_one_write(
    sandbox: ShippedSandbox,
    crm: HubSpotCrm,
    fault: FaultKind,
    expected: type,
    writes: int,
    *,
    by_its_own_id: bool,
) -> None:
    crm_id = sandbox.hubspot.contacts.add(email="seven@example.com") if by_its_own_id else None
    sandbox.faults.add(fault, times=None)
    assert isinstance(crm.upsert_contact(MINE, GRACE, crm_id=crm_id), expected)
    assert len(sandbox.ledger.requests) == 1
    assert sum(one.writes for one in sandbox.hubspot.ledger.contacts) == writes


def test_push_succeeds_on_forgotten_connection(sandbox: ShippedSandbox, crm: HubSpotCrm) -> None:
    """A Lambda function thaws with a dead connection of its last invocation."""
    first = crm.upsert_contact(MINE, GRACE)
    sandbox.generation += 1

    second = crm.upsert_contact(MINE, {"firstname": "Ada"})
    assert isinstance(first, Succeeded)
    assert isinstance(second, Succeeded)


def test_read_succeeds_on_forgotten_connection(sandbox: ShippedSandbox, crm: HubSpotCrm) -> None:
    record_id = sandbox.hubspot.contacts.add(email="seven@example.com")
    crm.get_contact(record_id)
    sandbox.generation += 1
    assert isinstance(crm.get_contact(record_id), CrmRecord)


@pytest.mark.parametrize("fault", EVERY_FAULT)
def test_faulty_read_makes_one_request_and_changes_nothing(
    sandbox: ShippedSandbox, crm: HubSpotCrm, fault: FaultKind
) -> None:
    record_id = sandbox.hubspot.contacts.add(email="seven@example.com")
    sandbox.faults.add(fault, times=None)

    answers = [
        crm.get_contact(record_id),
        crm.list_contacts(after=None),
        crm.list_changed(since=START, after=None),
        crm.find_by_external_id(MINE),
    ]

    assert [type(answer) for answer in answers] == [NotSent, NotSent, NotSent, LookupFailed]
    assert sandbox.ledger.paths == {
        f"GET {CONTACTS}/1": 1,
        f"GET {CONTACTS}": 1,
        f"POST {CONTACTS}/search": 1,
        f"GET {CONTACTS}/hubspot%234419": 1,
    }


def test_slow_reply_is_accepted(sandbox: ShippedSandbox, crm: HubSpotCrm) -> None:
    sandbox.faults.add(FaultKind.SLOW, times=None, seconds=0.1)
    assert isinstance(crm.upsert_contact(MINE, GRACE), Succeeded)
    assert isinstance(crm.find_by_external_id(MINE), CrmRecord)


def test_read_is_not_retried_unlike_default(sandbox: ShippedSandbox, crm: HubSpotCrm) -> None:
    sandbox.faults.add(FaultKind.RATE_LIMIT, times=None, seconds=0)
    headers = {"Authorization": "Bearer pat-test-1"}

    PoolManager().request("GET", f"{sandbox.url}{CONTACTS}/1", headers=headers)
    by_default = len(sandbox.ledger.requests)
    crm.get_contact("1")

    assert (by_default, len(sandbox.ledger.requests)) == (4, 5)


@pytest.mark.parametrize("host", ["127.0.0.1:{closed}", "no-such-host.invalid:80"])
def test_failed_connection_sends_nothing(host: str) -> None:
    crm = short_timeout_crm("http://" + host.format(closed=free_port()))
    answer = crm.upsert_contact(MINE, GRACE)
    assert isinstance(answer, NotSent)
    assert not answer.credentials_rejected


def test_connect_timeout_sends_nothing() -> None:
    with busy_server() as url:
        assert isinstance(short_timeout_crm(url).upsert_contact(MINE, GRACE), NotSent)


def test_untrusted_server_is_sent_nothing(tmp_path: Path) -> None:
    with untrusted_server(tmp_path) as url:
        answer = short_timeout_crm(url).upsert_contact(MINE, GRACE)
    assert isinstance(answer, NotSent)
    assert "CERTIFICATE_VERIFY_FAILED" in answer.reason


@pytest.mark.parametrize(
    ("token", "reads"), [("wrong", NotSent), ("", NotSent), ("pat-test-read", RecordNotFound)]
)
def test_read_only_token_raises_alarm(sandbox: ShippedSandbox, token: str, reads: type) -> None:
    crm = HubSpotCrm.from_token(token, api_base=sandbox.url)

    answer = crm.upsert_contact(MINE, GRACE)
    assert isinstance(answer, NotSent)
    assert answer.credentials_rejected
    assert isinstance(crm.get_contact("1"), reads)
    assert sandbox.hubspot.ledger.contacts == ()


@pytest.mark.parametrize(
    ("seconds", "wait"),
    [
        (0, timedelta(0)),
        (2.5, timedelta(seconds=2.5)),
        (86_400, timedelta(minutes=15)),
        (float("inf"), timedelta(seconds=10)),  # as its policy says
        (float("nan"), timedelta(seconds=10)),  # as its policy says
        (-1, timedelta(seconds=10)),  # as its policy says
    ],
)
def test_retry_after_is_followed_within_limits(
    sandbox: ShippedSandbox, crm: HubSpotCrm, seconds: float, wait: timedelta
) -> None:
    sandbox.faults.add(FaultKind.RATE_LIMIT, times=None, seconds=seconds)
    answers = [crm.upsert_contact(MINE, GRACE), crm.get_contact("1")]
    assert [isinstance(one, NotSent) and one.retry_after for one in answers] == [wait, wait]


@pytest.mark.parametrize(
    ("policy", "wait"),
    [
        ({"policyName": "SECONDLY"}, timedelta(seconds=1)),
        ({"policyName": "TEN_SECONDLY_ROLLING"}, timedelta(seconds=10)),
        ({"policyName": "DAILY"}, timedelta(hours=3)),  # from 03:00 to 06:00 UTC
        ({"policyName": "daily"}, timedelta(hours=3)),
        ({"message": "You have reached your daily limit."}, timedelta(hours=3)),
        ({"policyName": "ANOTHER"}, None),
        ({"policyName": 7}, None),
    ],
)
def test_rate_limit_without_retry_after_waits_by_policy(
    monkeypatch: pytest.MonkeyPatch, policy: dict[str, object], wait: timedelta | None
) -> None:
    body = {"status": "error", "message": "limit", "errorType": "RATE_LIMIT", **policy}

    answers = [
        replace(crm_with_response(monkeypatch, 429, body), now=lambda: START).upsert_contact(
            MINE, GRACE
        ),
        replace(crm_with_response(monkeypatch, 429, body), now=lambda: START).get_contact("1"),
    ]

    assert [isinstance(one, NotSent) and one.retry_after for one in answers] == [wait, wait]
    daily = wait == timedelta(hours=3)
    for one in answers:
        assert isinstance(one, NotSent)
        assert one.credentials_rejected is daily


EXISTS = {"category": "CONFLICT", "message": "Contact already exists. Existing ID: 4419"}


def crm_with_response(monkeypatch: pytest.MonkeyPatch, status: int, body: object) -> HubSpotCrm:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = HTTPResponse(
        body=BytesIO(text), status=status, headers={"x": "y"}, preload_content=False
    )
    monkeypatch.setattr(PoolManager, "request", lambda *_, **__: answer)
    return short_timeout_crm("http://hubspot.test")


@pytest.mark.parametrize("crm_id", [None, "7"])
@pytest.mark.parametrize(
    ("body", "record_id", "by"),
    [
        (EXISTS, "4419", set()),
        ({**EXISTS, "status": "error", "correlationId": "c"}, "4419", set()),
        ({**EXISTS, "errors": [{"message": "x", "in": "email"}]}, "4419", {"email"}),
        ({**EXISTS, "errors": [{"message": "x", "in": "oncely_id"}]}, "4419", set()),
        ({**EXISTS, "errors": ["x"]}, "4419", set()),
        ({**EXISTS, "message": "Contact already exists."}, None, set()),
        ({**EXISTS, "message": "Contact already exists. Existing ID: ../7"}, None, set()),
        ({**EXISTS, "message": "-", "errors": [{"in": "email"}]}, None, {"email"}),
    ],
)
def test_conflict_names_existing_contact_in_every_format(
    monkeypatch: pytest.MonkeyPatch,
    body: dict[str, object],
    record_id: str | None,
    by: set[str],
    crm_id: str | None,
) -> None:
    crm = crm_with_response(monkeypatch, 409, body)
    answer = crm.upsert_contact(MINE, {"email": "seven@example.com"}, crm_id=crm_id)
    assert isinstance(answer, CrmConflict)
    assert answer.record_id == record_id
    assert answer.properties == by


@pytest.mark.parametrize(
    "body",
    [
        {"category": "CONFLICT", "message": "The object is being written by another request."},
        {"category": "CONFLICT", "message": "-", "errors": [{"in": "oncely_id"}]},
        b"<html>Conflict</html>",
    ],
)
def test_other_conflict_is_ambiguous(monkeypatch: pytest.MonkeyPatch, body: object) -> None:
    crm = crm_with_response(monkeypatch, 409, body)
    assert isinstance(crm.upsert_contact(MINE, GRACE), Ambiguous)


def test_error_status_counts_when_body_is_not_text(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = crm_with_response(monkeypatch, 401, b"Zugriff verweigert f\xfcr")
    answer = rejected.upsert_contact(MINE, GRACE)
    assert isinstance(answer, NotSent)
    assert answer.credentials_rejected


@pytest.mark.parametrize("status", [413, 414])
@pytest.mark.parametrize("body", [b"<html>Too large</html>", {"message": "too large"}, b""])
@pytest.mark.parametrize("crm_id", [None, "7"])
def test_too_large_request_is_declined(
    monkeypatch: pytest.MonkeyPatch, status: int, body: object, crm_id: str | None
) -> None:
    answer = crm_with_response(monkeypatch, status, body).upsert_contact(MINE, GRACE, crm_id=crm_id)
    assert isinstance(answer, Declined)
    assert answer.code == f"HTTP_{status}"


def test_too_large_record_is_declined(sandbox: ShippedSandbox, crm: HubSpotCrm) -> None:
    answer = crm.upsert_contact(MINE, {"notes": "x" * 3_000_000})
    assert isinstance(answer, Declined)
    assert (answer.code, sandbox.hubspot.ledger.contacts) == ("HTTP_413", ())


@pytest.mark.parametrize(
    ("body", "is_hubspots"),
    [
        ({"status": "error", "message": "resource not found"}, True),
        ({"category": "OBJECT_NOT_FOUND", "message": "Object not found."}, True),
        ({"message": "resource not found", "correlationId": "c"}, True),
        ({"message": "Not Found"}, False),
        ({"category": None, "message": "Not Found"}, False),
        (["Not Found"], False),
        (b"<html>Not Found</html>", False),
    ],
)
def test_contact_is_gone_only_when_404_is_from_hubspot(
    monkeypatch: pytest.MonkeyPatch, body: object, *, is_hubspots: bool
) -> None:
    crm = partial(crm_with_response, monkeypatch, 404, body)

    answers = [
        crm().get_contact("7"),
        crm().find_by_external_id(MINE),
        crm().upsert_contact(MINE, GRACE, crm_id="7"),
    ]

    unsure = [NotSent, LookupFailed, Ambiguous]
    assert [type(one) for one in answers] == ([RecordNotFound] * 3 if is_hubspots else unsure)


def test_external_id_property_must_be_unique(sandbox: ShippedSandbox) -> None:
    crm = HubSpotCrm.from_token("pat-test-1", api_base=sandbox.url, id_property="nickname")
    assert isinstance(crm.upsert_contact(MINE, GRACE), Declined)
    assert isinstance(crm.find_by_external_id(MINE), LookupFailed)


def test_foreign_404_does_not_prove_contact_is_gone(sandbox: ShippedSandbox) -> None:
    crm = HubSpotCrm.from_token("pat-test-1", api_base=f"{sandbox.url}/elsewhere")
    assert isinstance(crm.get_contact("1"), NotSent)
    assert isinstance(crm.find_by_external_id(MINE), LookupFailed)
    assert isinstance(crm.upsert_contact(MINE, GRACE), Ambiguous)


def test_changed_pages_past_10_000_results(sandbox: ShippedSandbox) -> None:
    ids = sandbox.hubspot.contacts.add_contacts(10_150)
    crm = HubSpotCrm.from_token("pat-test-1", api_base=sandbox.url)

    seen: list[str] = []
    page = crm.list_changed(since=START, after=None)
    while isinstance(page, CrmPage) and page.records:
        seen += [one.record_id for one in page.records]
        if page.after is None:
            break
        page = crm.list_changed(since=START, after=page.after)

    assert (seen, sandbox.ledger.paths) == (ids, {f"POST {CONTACTS}/search": 102})
