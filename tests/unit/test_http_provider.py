"""What each response of an HTTP API means, for an effect and for a lookup, and what is refused."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    LookupFailed,
    LookupOutcome,
    NotFound,
    NotSent,
    Pending,
    Succeeded,
)
from oncely.core.errors import GateClosedError, NotConfiguredError
from oncely.core.profiles import EndpointGroup
from oncely.plugins.http_client import MAX_BODY_BYTES, HttpClient
from oncely.plugins.http_provider import EffectAnswers, HttpProvider, HttpSettings, LookupAnswers
from oncely.plugins.provider import UNGATED, GatedResponse, ProviderAccess, RequestGate
from oncely.testing.in_process import CLOSES, in_process_network, refuse_connection
from oncely.testing.sandbox.http_messages import SandboxRequest, SandboxResponse, encode_response

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "sk_live_7"
KEY = "d1:voucher.issue:7:do:1"
STATUSES = range(200, 600)
STATUS_FIELD: EffectAnswers = {
    "status": {"issued": Succeeded, "failed": Declined, "pending": Pending}
}
ABSENT = {"error.code": "not_found"}
EFFECT: Mapping[str, Any] = {"id": "v_1", "amount": 1250, "paid": True}


@dataclass
class RespondingApi:
    """An API that gives one response, and keeps the requests that it got."""

    status: int = 200
    body: object = field(default_factory=lambda: dict(EFFECT))
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None  # instead of the body
    error: Callable[[], OSError] | None = None  # after the request
    requests: list[SandboxRequest] = field(default_factory=list)

    def client(
        self,
        *,
        gate: RequestGate = UNGATED,
        api_key: str = SECRET,
        **declared: Any,  # noqa: ANN401  # arguments of HttpProvider
    ) -> HttpClient:
        settings = HttpSettings(api_base="http://vouchers/v1")
        network = in_process_network(self._serve, lambda: NOW)
        access = ProviderAccess(settings=settings, api_key=api_key, gate=gate, network=network)
        return HttpProvider("vouchers", **declared).connect(access)

    def post(
        self,
        expect: Mapping[str, Any] | None = None,
        **declared: Any,  # noqa: ANN401  # as above
    ) -> EffectOutcome:
        client = self.client(**declared)
        return client.perform("POST", "/vouchers", json={"order": "7"}, key=KEY, expect=expect)

    def get(
        self,
        expect: Mapping[str, Any] | None = None,
        **declared: Any,  # noqa: ANN401  # as above
    ) -> LookupOutcome:
        return self.client(**declared).look_up("/vouchers/7", expect=expect)

    def search(self) -> LookupOutcome:
        order = {"order": "7"}
        return self.client().look_up("/vouchers", params=order, one_of="data", expect=order)

    def _serve(self, host: str, request: SandboxRequest) -> bytes | OSError:
        self.requests.append(request)
        if self.error is not None:
            return self.error()
        content = json.dumps(self.body).encode() if self.content is None else self.content
        response = SandboxResponse(self.status, {}, {**CLOSES, **self.headers})
        return encode_response(response, content)


def test_every_status_of_an_effect_has_a_safe_meaning() -> None:
    not_sent = {401, 403, 404, 405, 407, 410, 421, 429}
    ambiguous = {408, 409, 423, 425, 499}
    for status in STATUSES:
        outcome = RespondingApi(status).post()
        if status in {200, 201, 204}:
            expected: type = Succeeded
        elif status in not_sent:
            expected = NotSent
        else:
            expected = Declined if 400 <= status < 500 and status not in ambiguous else Ambiguous
        assert type(outcome) is expected, status
        if isinstance(outcome, NotSent):
            assert outcome.credentials_rejected == (status != 429)
        if isinstance(outcome, Declined):
            assert outcome.code == f"HTTP_{status}"


def test_only_200_of_a_lookup_finds_an_effect() -> None:
    found = {status: RespondingApi(status).get() for status in STATUSES}

    assert found.pop(200) == Succeeded("GET /vouchers/7: vouchers responded with 200", "v_1")
    assert {type(outcome) for outcome in found.values()} == {LookupFailed}


@pytest.mark.parametrize(
    ("answers", "status", "expected"),
    [
        ({404: Declined}, 404, Declined),
        ({422: Ambiguous}, 422, Ambiguous),
        ({503: NotSent}, 503, NotSent),
        ({202: Pending}, 202, Pending),
        ({409: Succeeded}, 409, Succeeded),
        ({"2xx": Succeeded}, 299, Succeeded),
        ({"4xx": NotSent}, 400, NotSent),
        # What a class says does not replace what is known of a status.
        ({"2xx": Succeeded}, 202, Ambiguous),
        ({"4xx": Declined}, 409, Ambiguous),
        ({"4xx": Declined}, 401, NotSent),
    ],
)
def test_author_says_what_a_status_means(
    answers: EffectAnswers, status: int, expected: type
) -> None:
    assert isinstance(RespondingApi(status).post(answers=answers), expected)


@pytest.mark.parametrize(
    ("status", "value", "effect", "lookup"),
    [
        (200, "issued", Succeeded, Succeeded),
        (200, "failed", Declined, Declined),
        (200, "pending", Pending, Pending),
        (202, "pending", Pending, Pending),
        (202, "other", Ambiguous, LookupFailed),
        (200, "other", Ambiguous, LookupFailed),
        (200, None, Ambiguous, LookupFailed),
        (200, ["issued"], Ambiguous, LookupFailed),
        (500, "failed", Ambiguous, LookupFailed),
        (422, "issued", Declined, LookupFailed),
    ],
)
def test_field_of_a_success_decides(status: int, value: object, effect: type, lookup: type) -> None:
    api = RespondingApi(status, {"id": "v_1", "status": value})

    assert isinstance(api.post(answers=STATUS_FIELD), effect)
    assert isinstance(api.get(answers=STATUS_FIELD), lookup)


def test_lookup_may_read_another_field() -> None:
    api = RespondingApi(body={"id": "v_1", "status": "failed", "state": "none"})
    own: LookupAnswers = {410: NotFound, "state": {"done": Succeeded, "none": NotFound}}

    assert isinstance(api.get(answers=STATUS_FIELD, lookup_answers=own), NotFound)


def test_declined_value_is_the_code() -> None:
    outcome = RespondingApi(body={"status": "failed"}).post(answers=STATUS_FIELD)

    assert isinstance(outcome, Declined)
    assert outcome.code == "failed"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>it works</html>",
        b'{"id": "v_1"',
        b'{"id": ""}',
        b'{"id": true}',
        b'{"id": {"a": 1}}',
        b'{"id": "a\\u0000b"}',
        b'{"id": "' + b"v" * 501 + b'"}',
        b'["v_1"]',
        b"[" * 100_000,
        b"\xff",
        b'{"id": "v_1", "x": "' + b"x" * MAX_BODY_BYTES + b'"}',
    ],
    ids=lambda content: content[:20].decode(errors="replace"),
)
def test_success_without_a_valid_body_proves_nothing(content: bytes) -> None:
    api = RespondingApi(content=content)

    assert isinstance(api.post(), Ambiguous)
    assert isinstance(api.get(), LookupFailed)


def test_reference_is_where_the_author_says() -> None:
    found = RespondingApi(body={"data": {"voucher": 18}}).post(reference="data.voucher")
    without = RespondingApi(content=b"").post(reference=None)
    no_content = RespondingApi(204, content=b"").post()

    assert [one.ref for one in (found, without, no_content) if isinstance(one, Succeeded)] == [
        "18",
        None,
        None,
    ]


def test_result_keeps_only_named_fields() -> None:
    body = {**EFFECT, "status": "ok", "owner": {"name": "Ada"}, "note": "x" * 501, "url": "a\nb"}
    body["rate"] = float("inf")
    names = ("status", "amount", "owner", "note", "url", "rate", "missing")

    outcomes = RespondingApi(body=body).post(), RespondingApi(body=body).post(result=names)

    assert [one.result for one in outcomes if isinstance(one, Succeeded)] == [
        {},
        {"status": "ok", "amount": 1250},
    ]


@pytest.mark.parametrize(
    ("header", "delay"),
    [
        ("7", timedelta(seconds=7)),
        ("Sun, 01 Mar 2026 12:00:30 GMT", timedelta(seconds=30)),
        ("Sun, 01 Mar 2026 11:00:00 GMT", timedelta(0)),
        ("Sun, 01 Mar 2026 12:00:30 -0000", timedelta(seconds=30)),
        ("soon", None),
        ("-1", None),
        ("9" * 30, None),
    ],
)
def test_provider_says_when_to_retry(header: str, delay: timedelta | None) -> None:
    api = RespondingApi(429, headers={"Retry-After": header})
    effect, lookup = api.post(), api.get()
    assert isinstance(effect, NotSent)
    assert isinstance(lookup, LookupFailed)
    assert effect.retry_after == lookup.retry_after == delay


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"data": [{"id": "v_1", "order": "7"}]}, Succeeded),
        ({"data": []}, NotFound),
        ({"data": [{"id": "v_1", "order": "7"}, {"id": "v_2", "order": "7"}]}, Anomalous),
        ({"data": [{"id": "v_1", "order": "8"}]}, Anomalous),
        ({"data": [{"id": "v_1"}]}, LookupFailed),
        ({"data": ["v_1"]}, LookupFailed),
        ({"data": {}}, LookupFailed),
        ([], LookupFailed),
    ],
)
def test_search_must_find_exactly_one(body: object, expected: type) -> None:
    api = RespondingApi(body=body)
    assert isinstance(api.search(), expected)
    assert api.requests[0].query == "order=7"


def test_list_of_a_search_may_be_the_body() -> None:
    client = RespondingApi(body=[{"id": "v_1", "order": "7"}]).client()
    outcome = client.look_up("/vouchers", one_of="", expect={"order": "7"})
    assert isinstance(outcome, Succeeded)


def test_search_without_a_value_to_expect_is_refused() -> None:
    api = RespondingApi()
    with pytest.raises(ValueError, match="a search needs a value that only this job's effect has"):
        api.client().look_up("/vouchers", params={"order": "7"}, one_of="data")
    assert not api.requests


@pytest.mark.parametrize(
    ("declared", "body", "expected"),
    [
        (ABSENT, {"error": {"code": "not_found"}}, NotFound),
        (ABSENT, {"error": {"code": "no_route"}}, LookupFailed),
        (ABSENT, {"error": "not_found"}, LookupFailed),
        (ABSENT, "<html>404</html>", LookupFailed),
        ({}, {"error": {"code": "not_found"}}, LookupFailed),
    ],
)
def test_404_means_absent_only_with_the_declared_body(
    declared: Mapping[str, str], body: object, expected: type
) -> None:
    assert isinstance(RespondingApi(404, body).get(absent_body=declared), expected)


def test_reason_of_an_undeclared_404_says_what_to_declare() -> None:
    outcome = RespondingApi(404, {}).get()
    assert isinstance(outcome, LookupFailed)
    assert "declare in absent_body what the body has only if the effect is" in outcome.reason


@pytest.mark.parametrize(
    ("expect", "effect", "lookup"),
    [
        ({"amount": 1250, "paid": True}, Succeeded, Succeeded),
        ({"amount": 900}, Anomalous, Anomalous),
        ({"amount": "1250"}, Anomalous, Anomalous),
        ({"paid": 1}, Anomalous, Anomalous),
        ({"currency": "eur"}, Ambiguous, LookupFailed),  # not another value, but none
    ],
)
def test_effect_has_the_values_that_the_job_expects(
    expect: dict[str, Any], effect: type, lookup: type
) -> None:
    assert isinstance(RespondingApi(201).post(expect), effect)
    assert isinstance(RespondingApi().get(expect), lookup)


def test_anomaly_shows_the_reference_and_only_numbers() -> None:
    amount, email = (
        RespondingApi().get({"amount": 900}),
        RespondingApi(body={"id": "v_1", "email": "ada@b.example"}),
    )
    assert amount == Anomalous(
        "GET /vouchers/7: vouchers responded with 200, but amount is 1250, not 900", "v_1"
    )
    assert "ada" not in email.get({"email": "grace@b.example"}).reason


def test_declined_effect_of_another_amount_does_not_fail_the_job() -> None:
    api = RespondingApi(body={"id": "v_1", "status": "failed", "amount": 900})
    assert isinstance(api.get({"amount": 1250}, answers=STATUS_FIELD), Anomalous)


def test_refused_connection_sent_nothing() -> None:
    def refuse() -> OSError:
        refuse_connection()
        raise AssertionError

    assert isinstance(RespondingApi(error=refuse).post(), NotSent)
    assert isinstance(RespondingApi(error=refuse).get(), LookupFailed)


@pytest.mark.parametrize("error", [ConnectionResetError, TimeoutError])
def test_lost_response_is_ambiguous(error: Callable[[], OSError]) -> None:
    assert isinstance(RespondingApi(error=error).post(), Ambiguous)
    assert isinstance(RespondingApi(error=error).get(), LookupFailed)


class RecordingGate(RequestGate):
    def __init__(self, *, is_closed: bool = False) -> None:
        self.is_closed = is_closed
        self.seen: list[GatedResponse] = []

    @contextmanager
    def request(
        self, endpoint: str = "", *, group: EndpointGroup | None = None
    ) -> Iterator[GatedResponse]:
        if self.is_closed:
            raise GateClosedError("paused")
        self.seen.append(GatedResponse())
        yield self.seen[-1]


def test_gate_is_around_each_request() -> None:
    gate, api = RecordingGate(), RespondingApi(503)
    api.post(gate=gate)
    api.get(gate=gate)
    RespondingApi(error=TimeoutError).post(gate=gate)
    assert [one.status for one in gate.seen] == [503, 503, None]

    closed = RecordingGate(is_closed=True)
    for request in (api.post, api.get):
        with pytest.raises(GateClosedError):
            request(gate=closed)
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    ("auth", "api_key", "header", "value"),
    [
        ("bearer", SECRET, "authorization", f"Bearer {SECRET}"),
        ("basic", "user:password", "authorization", "Basic dXNlcjpwYXNzd29yZA=="),
        ("basic", "key", "authorization", "Basic a2V5Og=="),
        ("X-Api-Key", SECRET, "x-api-key", SECRET),
        (None, "", "authorization", None),
    ],
)
def test_api_key_is_sent_as_declared(
    auth: str | None, api_key: str, header: str, value: str | None
) -> None:
    api = RespondingApi()
    api.post(auth=auth, api_key=api_key, headers={"X-Version": "2"})
    assert api.requests[0].headers.get(header) == value
    assert api.requests[0].headers["x-version"] == "2"
    assert HttpProvider("vouchers", auth=auth).secret_name == (auth and "vouchers")


def test_idempotency_key_is_sent_only_if_there_is_one() -> None:
    api = RespondingApi()
    api.client(idempotency_header="X-Request-Id").perform("PUT", "/vouchers/7", key=KEY)
    api.client().perform("PUT", "/vouchers/7")
    with_key, without = (request.headers for request in api.requests)
    assert with_key["x-request-id"] == KEY
    assert "idempotency-key" not in with_key
    assert KEY not in without.values()


def test_request_is_json() -> None:
    api = RespondingApi()
    api.post()
    (request,) = api.requests
    assert (request.method, request.path) == ("POST", "/v1/vouchers")
    assert request.headers["content-type"] == "application/json"
    assert request.params == {"order": "7"}


@pytest.mark.parametrize(
    "path",
    [
        *("vouchers/7", "", "/vouchers/a b", "/vouchers/7?x=1", "/vouchers/7#x", "/vouchers/é"),
        *("/vouchers/../refunds", "/vouchers/%2e%2E%2frefunds", "//b.example/7", "/a//7", "/a\n"),
    ],
)
def test_path_that_an_id_could_change_is_not_sent(path: str) -> None:
    api = RespondingApi()
    for outcome in (api.client().perform("POST", path), api.client().look_up(path)):
        assert isinstance(outcome, Anomalous)
        assert "quote(order_id, safe='')" in outcome.reason
    assert not api.requests


def test_quoted_id_is_one_segment() -> None:
    api = RespondingApi()
    api.client().look_up("/vouchers/a%2Fb%3F")
    assert api.requests[0].path == "/v1/vouchers/a%2Fb%3F"


@pytest.mark.parametrize("value", [{"at": NOW}, {"price": float("nan")}])
def test_body_that_is_not_json_is_not_sent(value: object) -> None:
    api = RespondingApi()
    outcome = api.client().perform("POST", "/vouchers", json=value)
    assert isinstance(outcome, Anomalous)
    assert "was not sent" in outcome.reason
    assert not api.requests


@pytest.mark.parametrize("status", [200, 202, 400, 401, 404, 500])
def test_reasons_hold_no_secret_and_no_body(status: int) -> None:
    def fail() -> OSError:
        return ConnectionResetError(f"reset after {SECRET} ada@b.example")

    content = f'{{"message": "ada@b.example sent {SECRET}"}}'.encode()
    for api in (RespondingApi(status, content=content), RespondingApi(error=fail)):
        client = api.client(absent_body=ABSENT)
        effect = client.perform("POST", "/vouchers", json={"email": "ada@b.example"})
        lookup = client.look_up("/vouchers", params={"email": "ada@b.example"})
        for outcome in (effect, lookup):
            assert "ada" not in repr(outcome)
            assert SECRET not in repr(outcome)


def test_address_is_of_the_stage_or_of_the_provider() -> None:
    provider = HttpProvider("vouchers", base_url="https://vouchers.example/")
    other, nowhere = provider.read_settings({"VOUCHERS_API_BASE": "http://b"}), HttpSettings()
    unset = HttpProvider("vouchers")

    assert isinstance(other, HttpSettings)
    assert other.api_base == "http://b"
    assert provider.is_configured(nowhere)
    assert unset.is_configured(other)
    assert not unset.is_configured(nowhere)
    with pytest.raises(NotConfiguredError, match="vouchers has no address: set VOUCHERS_API_BASE"):
        unset.connect(ProviderAccess(settings=nowhere))
    wrong = ProviderAccess(settings=HttpSettings(api_base="vouchers.example"))
    with pytest.raises(NotConfiguredError, match=r"VOUCHERS_API_BASE is 'vouchers\.example'"):
        provider.connect(wrong)


def test_profile_has_the_declared_facts() -> None:
    provider = HttpProvider("vouchers", key_ttl="24h", lookup_lag="0s", timeout="5s")
    short = HttpProvider("vouchers", key_ttl=timedelta(hours=1), lookups_per_second=5)

    profile = provider.profile
    assert (profile.key_ttl, profile.lookup_lag) == (timedelta(days=1), timedelta(0))
    assert profile.request_timeout == timedelta(seconds=5)
    assert (profile.key_ttl_margin, short.profile.key_ttl_margin) == (
        timedelta(hours=1),
        timedelta(minutes=15),
    )
    assert short.profile.lookups_per_second == 5


@pytest.mark.parametrize(
    ("declared", "mistake"),
    [
        ({"name": "Acme Mail"}, "its name must be like 'acme_mail'"),
        ({"base_url": "http://api.example.com"}, "must be like 'https://api.example.com/v1'"),
        ({"base_url": "api.example.com"}, "must be like 'https://api.example.com/v1'"),
        ({"auth": "X Api Key"}, "'X Api Key' is not a header: write it like 'X-Api-Key'"),
        ({"idempotency_header": ""}, "'' is not a header"),
        ({"timeout": "10"}, "timeout='10' must be a number with its unit, as in '24h' or '10s'"),
        ({"timeout": "0s"}, "timeout='0s' must be"),
        ({"key_ttl": 24}, "key_ttl=24 must be"),
        ({"lookup_lag": timedelta(-1)}, "lookup_lag=.* must be"),
        ({"effects_per_second": -1}, "a rate is from"),
        ({"answers": {"404": Declined}}, r"answers\['404'\]: write a status as 404"),
        ({"answers": {"status": Declined}}, "a field of the body with what its values mean"),
        ({"answers": {422: {"code": Declined}}}, r"answers\[422\]: write a status as 404"),
        ({"answers": {42: Declined}}, r"answers\[42\]: write a status as 404"),
        ({"answers": {404: NotFound}}, "cannot mean <class .*NotFound'>: choose one of Succeeded"),
        ({"answers": {404: "declined"}}, "cannot mean 'declined'"),
        ({"answers": {"5xx": NotSent}}, "a 5xx alone does not prove NotSent; name each status"),
        ({"answers": {"5xx": Declined}}, "a 5xx alone does not prove Declined"),
        ({"answers": {"3xx": Succeeded}}, "a 3xx alone does not prove Succeeded"),
        ({"answers": {"2xx": NotSent}}, "a 2xx alone does not prove NotSent"),
        ({"answers": {"status": {"failed": Declined}}}, "must list a value that means Succeeded"),
        ({"answers": {"a": {"x": Succeeded, "y": NotSent}}}, "none that means NotSent"),
        ({"answers": {"a": {"x": Succeeded}, "b": {"x": Succeeded}}}, "choose one"),
        ({"lookup_answers": {"4xx": NotFound}}, "a 4xx alone does not prove NotFound"),
        ({"lookup_answers": {503: NotSent}}, "cannot mean .*NotSent'>: choose one of"),
    ],
)
def test_mistake_has_a_sentence_with_its_fix(declared: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ValueError, match=rf"HttpProvider\('.*'\): .*{mistake}"):
        HttpProvider(**{"name": "vouchers", **declared})


@pytest.mark.parametrize("status", ["2xx", "3xx", "4xx", "5xx"])
def test_class_may_always_prove_nothing(status: str) -> None:
    HttpProvider("vouchers", answers={status: Ambiguous}, lookup_answers={status: LookupFailed})
