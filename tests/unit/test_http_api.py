"""The HTTP side: who is let in, what is refused, and that every refusal is a sentence."""

import base64
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from oncely.adapters.http_api import READERS, REPAIRERS, Person, Reply, Request, Route, answered
from oncely.adapters.list_query import ListQuery
from oncely.domain.errors import InvalidRequestError, UnavailableError


def event(**claims: object) -> dict[str, Any]:
    found: dict[str, Any] = {"routeKey": "GET /api/x", "requestContext": {}}
    if claims:
        found["requestContext"] = {"authorizer": {"jwt": {"claims": claims}}}
    return found


def who(**claims: object) -> Person | None:
    seen: list[Request] = []

    def look(request: Request) -> Reply:
        seen.append(request)
        return Reply.of({})

    answered(event(**claims), {"GET /api/x": Route(look)})
    return seen[0].person


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
    person = who(username="ada", **{"cognito:groups": claim})

    assert person == Person("ada", frozenset(groups))


def test_user_name_comes_only_from_immutable_claim() -> None:
    person = who(**{"cognito:username": "ada@example.com", "email": "boss@example.com"})

    assert person is not None
    assert person.name == "ada@example.com"
    assert who(email="boss@example.com") is None


def status(route: Route, **claims: object) -> int:
    answer: int = answered(event(**claims), {"GET /api/x": route})["statusCode"]
    return answer


@pytest.mark.parametrize(
    ("groups", "claims", "expected"),
    [
        (READERS, {}, 401),
        (READERS, {"username": "a"}, 403),
        (READERS, {"username": "a", "cognito:groups": "[other]"}, 403),
        (READERS, {"username": "a", "cognito:groups": "[supporters]"}, 403),
        (READERS, {"username": "a", "cognito:groups": "[support]"}, 200),
        (READERS, {"username": "a", "cognito:groups": "[operator]"}, 200),
        (REPAIRERS, {"username": "a", "cognito:groups": "[support]"}, 403),
        (REPAIRERS, {"username": "a", "cognito:groups": "[operator]"}, 200),
    ],
)
def test_route_serves_only_its_groups(
    groups: frozenset[str], claims: dict[str, object], expected: int
) -> None:
    assert status(Route(lambda _: Reply.of({}), groups), **claims) == expected


def broken(error: Exception) -> Callable[[Request], Reply]:
    def answer(_: Request) -> Reply:
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "expected", "sentence"),
    [
        (InvalidRequestError("say why"), 400, "say why"),
        (UnavailableError("DynamoDB is busy"), 502, "try again in a moment: DynamoDB is busy"),
        (ZeroDivisionError("secret"), 500, "something unforeseen"),
    ],
)
def test_error_is_one_sentence_without_trace(
    error: Exception, expected: int, sentence: str
) -> None:
    answer = answered(event(), {"GET /api/x": Route(broken(error))})

    assert answer["statusCode"] == expected
    assert json.loads(answer["body"])["error"].startswith(sentence)
    assert "secret" not in answer["body"]


def test_unknown_route_is_not_found() -> None:
    assert answered(event(), {})["statusCode"] == HTTPStatus.NOT_FOUND


def test_every_response_has_strict_security_headers() -> None:
    headers = answered(event(), {"GET /api/x": Route(lambda _: Reply.of({}))})["headers"]

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
    reply = Reply(body="the page", headers={"etag": '"one"', "cache-control": "no-cache"})
    call = {**event(), "headers": {"if-none-match": known}}

    answer = answered(call, {"GET /api/x": Route(lambda _: reply)})

    assert answer["statusCode"] == status
    assert answer["body"] == ("" if status == 304 else "the page")
    assert (answer["headers"]["etag"], answer["headers"]["cache-control"]) == ('"one"', "no-cache")


def test_job_response_is_never_treated_as_cached() -> None:
    call = {**event(), "headers": {"if-none-match": "None, *, "}}

    answer = answered(call, {"GET /api/x": Route(lambda _: Reply.of({"job": 1}))})

    assert answer["statusCode"] == 200


def test_encoded_body_is_decoded() -> None:
    call = {**event(), "body": base64.b64encode("é".encode()).decode(), "isBase64Encoded": True}

    answer = answered(call, {"GET /api/x": Route(lambda request: Reply(body=request.body))})

    assert answer["body"] == "é"


@pytest.mark.parametrize(
    "query", [{"from": "yesterday"}, {"to": "2026-13-01"}, {"limit": "-1"}, {"limit": "²"}]
)
def test_invalid_list_query_is_rejected(query: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError):
        ListQuery.of(query)


def test_empty_list_parameter_counts_as_missing() -> None:
    asked = ListQuery.of({"status": "", "type": "", "from": "", "to": "", "cursor": ""})

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
    with pytest.raises(InvalidRequestError, match="is a time such as"):
        ListQuery.of({"from": time})
