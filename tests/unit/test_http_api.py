"""HTTP: authentication, authorization, and error messages."""

import base64
import json
from http import HTTPStatus
from typing import Any

import pytest

from oncely.admin_page.http_api import (
    READER_GROUPS,
    REPAIRER_GROUPS,
    Api,
    ApiRequest,
    ApiResponse,
    Route,
    User,
)
from oncely.admin_page.list_query import ListQuery
from oncely.core.errors import (
    InvalidRequestError,
    NotConfiguredError,
    UnavailableError,
    UnreadableRowError,
)
from oncely.operate.job_lists import ALL_JOBS

ADA = {"username": "ada"}


def make_event(**claims: object) -> dict[str, Any]:
    found: dict[str, Any] = {"routeKey": "GET /api/x", "requestContext": {}}
    if claims:
        found["requestContext"] = {"authorizer": {"jwt": {"claims": claims}}}
    return found


def call(route: Route, event: dict[str, Any] | None = None, **more: object) -> Any:  # noqa: ANN401  # Lambda's own form
    return make_api(route).handle({**(event or make_event()), **more})


def make_api(route: Route | None = None) -> Api:
    return Api(routes={} if route is None else {"GET /api/x": route}, digest=str)


def current_user(**claims: object) -> User | None:
    seen: list[ApiRequest] = []

    def look(request: ApiRequest) -> ApiResponse:
        seen.append(request)
        return ApiResponse.json({})

    call(Route(look), make_event(**claims))
    return seen[0].user


@pytest.mark.parametrize(
    ("claim", "groups"),
    [
        ("[support operator]", {"support", "operator"}),
        ("[a,operator]", {"a,operator"}),
        ("[operator]]", {"operator]"}),
        ("[[operator]", {"[operator"}),
        (["support"], {"support"}),
        ("[]", set()),
        ("", set()),
        (None, set()),
    ],
)
def test_groups_are_read_from_claim_in_any_form(claim: object, groups: set[str]) -> None:
    user = current_user(username="ada", **{"cognito:groups": claim})
    assert user == User("ada", frozenset(groups))


def test_user_name_comes_only_from_immutable_claim() -> None:
    user = current_user(**{"cognito:username": "ada@example.com", "email": "boss@example.com"})
    assert user is not None
    assert user.name == "ada@example.com"
    assert current_user(email="boss@example.com") is None


@pytest.mark.parametrize(
    ("groups", "claims", "expected"),
    [
        (READER_GROUPS, {}, 401),
        (READER_GROUPS, ADA, 403),
        (READER_GROUPS, {**ADA, "cognito:groups": "[other]"}, 403),
        (READER_GROUPS, {**ADA, "cognito:groups": "[supporters]"}, 403),
        (READER_GROUPS, {**ADA, "cognito:groups": "[support]"}, 200),
        (READER_GROUPS, {**ADA, "cognito:groups": "[operator]"}, 200),
        (REPAIRER_GROUPS, {**ADA, "cognito:groups": "[support]"}, 403),
        (REPAIRER_GROUPS, {**ADA, "cognito:groups": "[operator]"}, 200),
    ],
)
def test_route_serves_only_its_groups(
    groups: frozenset[str], claims: dict[str, object], expected: int
) -> None:
    route = Route(lambda _: ApiResponse.json({}), groups)
    assert call(route, make_event(**claims))["statusCode"] == expected


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (InvalidRequestError("say why"), 400, "say why"),
        (UnreadableRowError("cannot be read"), 422, "cannot be read"),
        (NotConfiguredError("no table"), 502, "no table"),
        (UnavailableError("DynamoDB is busy"), 502, "try again in a moment: DynamoDB is busy"),
        (ZeroDivisionError("secret"), 500, "unexpected error"),
    ],
)
def test_error_is_one_sentence_without_trace(error: Exception, expected: int, message: str) -> None:
    def fail(_: ApiRequest) -> ApiResponse:
        raise error

    response = call(Route(fail))

    assert response["statusCode"] == expected
    assert json.loads(response["body"])["error"].startswith(message)
    assert "secret" not in response["body"]


def test_unknown_route_is_not_found() -> None:
    assert make_api().handle(make_event())["statusCode"] == HTTPStatus.NOT_FOUND


def test_every_response_has_strict_security_headers() -> None:
    headers = call(Route(lambda _: ApiResponse.json({})))["headers"]

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("known", "status"),
    [('"one"', 304), ('W/"one"', 304), ('"two", "one"', 304), ('"two"', 200), ("", 200)],
)
def test_cached_response_is_not_sent_twice(known: str, status: int) -> None:
    reply = ApiResponse(body="the page", headers={"etag": '"one"', "cache-control": "no-cache"})

    response = call(Route(lambda _: reply), headers={"if-none-match": known})

    assert response["statusCode"] == status
    assert response["body"] == ("" if status == 304 else "the page")
    assert (response["headers"]["etag"], response["headers"]["cache-control"]) == (
        '"one"',
        "no-cache",
    )


def test_job_response_is_never_treated_as_cached() -> None:
    route = Route(lambda _: ApiResponse.json({"job": 1}))
    assert call(route, headers={"if-none-match": "None, *, "})["statusCode"] == 200


def test_encoded_body_is_decoded() -> None:
    body = base64.b64encode("é".encode()).decode()
    route = Route(lambda request: ApiResponse(body=request.body))
    assert call(route, body=body, isBase64Encoded=True)["body"] == "é"


@pytest.mark.parametrize(
    "query",
    [
        {"from": "yesterday"},
        {"to": "2026-13-01"},
        {"limit": "-1"},
        {"limit": "²"},
        {"job_type": "a"},
    ],
)
def test_invalid_list_query_is_rejected(query: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError):
        ListQuery.from_query_string(query)


def test_empty_list_parameter_counts_as_missing() -> None:
    names = ("status", "type", "from", "to", "error", "customer", "cursor")
    parsed = ListQuery.from_query_string(dict.fromkeys(names, ""))
    assert parsed == ListQuery(wanted=ALL_JOBS, cursor=None, limit=25)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_time_beyond_utc_range_is_invalid_request(time: str) -> None:
    with pytest.raises(InvalidRequestError, match="must be a time such as"):
        ListQuery.from_query_string({"from": time})
