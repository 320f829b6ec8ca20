"""HTTP: authentication, authorization, and error messages."""

import base64
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from oncely.admin_page.http_api import (
    READER_GROUPS,
    REPAIRER_GROUPS,
    ApiRequest,
    ApiResponse,
    Route,
    User,
    handle_event,
)
from oncely.admin_page.list_query import ListQuery
from oncely.domain.errors import (
    InvalidRequestError,
    NotConfiguredError,
    UnavailableError,
    UnreadableRowError,
)


def make_event(**claims: object) -> dict[str, Any]:
    found: dict[str, Any] = {"routeKey": "GET /api/x", "requestContext": {}}
    if claims:
        found["requestContext"] = {"authorizer": {"jwt": {"claims": claims}}}
    return found


def current_user(**claims: object) -> User | None:
    seen: list[ApiRequest] = []

    def look(request: ApiRequest) -> ApiResponse:
        seen.append(request)
        return ApiResponse.json({})

    handle_event(make_event(**claims), {"GET /api/x": Route(look)})
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
    person = current_user(username="ada", **{"cognito:groups": claim})

    assert person == User("ada", frozenset(groups))


def test_user_name_comes_only_from_immutable_claim() -> None:
    person = current_user(**{"cognito:username": "ada@example.com", "email": "boss@example.com"})

    assert person is not None
    assert person.name == "ada@example.com"
    assert current_user(email="boss@example.com") is None


def route_status(route: Route, **claims: object) -> int:
    answer: int = handle_event(make_event(**claims), {"GET /api/x": route})["statusCode"]
    return answer


@pytest.mark.parametrize(
    ("groups", "claims", "expected"),
    [
        (READER_GROUPS, {}, 401),
        (READER_GROUPS, {"username": "a"}, 403),
        (READER_GROUPS, {"username": "a", "cognito:groups": "[other]"}, 403),
        (READER_GROUPS, {"username": "a", "cognito:groups": "[supporters]"}, 403),
        (READER_GROUPS, {"username": "a", "cognito:groups": "[support]"}, 200),
        (READER_GROUPS, {"username": "a", "cognito:groups": "[operator]"}, 200),
        (REPAIRER_GROUPS, {"username": "a", "cognito:groups": "[support]"}, 403),
        (REPAIRER_GROUPS, {"username": "a", "cognito:groups": "[operator]"}, 200),
    ],
)
def test_route_serves_only_its_groups(
    groups: frozenset[str], claims: dict[str, object], expected: int
) -> None:
    assert route_status(Route(lambda _: ApiResponse.json({}), groups), **claims) == expected


def failing_route(error: Exception) -> Callable[[ApiRequest], ApiResponse]:
    def answer(_: ApiRequest) -> ApiResponse:
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "expected", "sentence"),
    [
        (InvalidRequestError("say why"), 400, "say why"),
        (UnreadableRowError("cannot be read"), 422, "cannot be read"),
        (NotConfiguredError("no table"), 502, "no table"),
        (UnavailableError("DynamoDB is busy"), 502, "try again in a moment: DynamoDB is busy"),
        (ZeroDivisionError("secret"), 500, "unexpected error"),
    ],
)
def test_error_is_one_sentence_without_trace(
    error: Exception, expected: int, sentence: str
) -> None:
    answer = handle_event(make_event(), {"GET /api/x": Route(failing_route(error))})

    assert answer["statusCode"] == expected
    assert json.loads(answer["body"])["error"].startswith(sentence)
    assert "secret" not in answer["body"]


def test_unknown_route_is_not_found() -> None:
    assert handle_event(make_event(), {})["statusCode"] == HTTPStatus.NOT_FOUND


def test_every_response_has_strict_security_headers() -> None:
    headers = handle_event(make_event(), {"GET /api/x": Route(lambda _: ApiResponse.json({}))})[
        "headers"
    ]

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("known", "status"),
    [
        ('"one"', 304),
        ('W/"one"', 304),
        ('"two", "one"', 304),
        ('"two"', 200),
        ("", 200),
    ],
)
def test_cached_response_is_not_sent_twice(known: str, status: int) -> None:
    reply = ApiResponse(body="the page", headers={"etag": '"one"', "cache-control": "no-cache"})
    call = {**make_event(), "headers": {"if-none-match": known}}

    answer = handle_event(call, {"GET /api/x": Route(lambda _: reply)})

    assert answer["statusCode"] == status
    assert answer["body"] == ("" if status == 304 else "the page")
    assert (answer["headers"]["etag"], answer["headers"]["cache-control"]) == ('"one"', "no-cache")


def test_job_response_is_never_treated_as_cached() -> None:
    call = {**make_event(), "headers": {"if-none-match": "None, *, "}}

    answer = handle_event(call, {"GET /api/x": Route(lambda _: ApiResponse.json({"job": 1}))})

    assert answer["statusCode"] == 200


def test_encoded_body_is_decoded() -> None:
    call = {
        **make_event(),
        "body": base64.b64encode("é".encode()).decode(),
        "isBase64Encoded": True,
    }

    answer = handle_event(
        call, {"GET /api/x": Route(lambda request: ApiResponse(body=request.body))}
    )

    assert answer["body"] == "é"


@pytest.mark.parametrize(
    "query", [{"from": "yesterday"}, {"to": "2026-13-01"}, {"limit": "-1"}, {"limit": "²"}]
)
def test_invalid_list_query_is_rejected(query: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError):
        ListQuery.from_query_string(query)


def test_empty_list_parameter_counts_as_missing() -> None:
    asked = ListQuery.from_query_string(
        {"status": "", "type": "", "from": "", "to": "", "cursor": ""}
    )

    assert vars(asked) == {
        "status": None,
        "job_type": None,
        "since": None,
        "until": None,
        "cursor": None,
        "limit": 25,
    }


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_time_beyond_utc_range_is_invalid_request(time: str) -> None:
    with pytest.raises(InvalidRequestError, match="must be a time such as"):
        ListQuery.from_query_string({"from": time})
