"""The HTTP side of the support view: who asks, what may be asked, and how it is answered."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from oncely.domain.effect_outcomes import Json
from oncely.domain.errors import InvalidInputError, OncelyError
from oncely.telemetry import telemetry

SUPPORT_GROUP: Final = "support"  # reads
OPERATOR_GROUP: Final = "operator"  # reads, repairs and exports

# What a browser must be told with every answer, whatever it is; the page has a policy of its own.
_SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "strict-transport-security": "max-age=31536000",
}
# Answers about jobs are nobody else's, and old the moment that they are given.
_NO_STORE: Final = {"cache-control": "no-store"}


@dataclass(frozen=True)
class User:
    """Who signed in, as API Gateway verified it."""

    name: str
    groups: frozenset[str]

    @property
    def can_repair(self) -> bool:
        """Whether this person may change anything."""
        return OPERATOR_GROUP in self.groups


@dataclass(frozen=True, kw_only=True)
class ApiRequest:
    """One call of a route."""

    user: User | None
    query: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    body: str = ""

    @property
    def require_user(self) -> User:
        """The person; a route that names groups is never called without one."""
        if self.user is None:
            raise LookupError("a public route knows nobody")
        return self.user


@dataclass(frozen=True, kw_only=True)
class ApiResponse:
    """What a route answers."""

    status: HTTPStatus = HTTPStatus.OK
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, content: Json, status: HTTPStatus = HTTPStatus.OK) -> "ApiResponse":
        """An answer about jobs."""
        return cls(
            status=status,
            body=json.dumps(content, ensure_ascii=False),
            headers={"content-type": "application/json; charset=utf-8", **_NO_STORE},
        )

    def not_modified_if(self, tags: str) -> "ApiResponse":
        """The same without its body, for a browser that has this very version."""
        known = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
        if self.headers.get("etag") not in known:
            return self
        return ApiResponse(status=HTTPStatus.NOT_MODIFIED, headers=self.headers)

    @classmethod
    def error(cls, status: HTTPStatus, message: str, **more: Json) -> "ApiResponse":
        """A refusal that says what to do."""
        return cls.json({"error": message, **more}, status)


@dataclass(frozen=True)
class Route:
    """What answers, and who may ask: one of these groups; none: anybody."""

    handler: Callable[[ApiRequest], ApiResponse]
    groups: frozenset[str] = frozenset()


Routes: TypeAlias = Mapping[str, Route]
READER_GROUPS: Final = frozenset({SUPPORT_GROUP, OPERATOR_GROUP})
REPAIRER_GROUPS: Final = frozenset({OPERATOR_GROUP})


def handle_event(event: Mapping[str, Any], routes: Routes) -> dict[str, Any]:
    """Answer a call of API Gateway's; what goes wrong is a sentence, never a trace."""
    route_key = str(event.get("routeKey"))
    response = _respond(event, routes.get(route_key)).not_modified_if(
        _header(event, "if-none-match")
    )
    telemetry().logger.info(
        "request answered", extra={"route": route_key, "status": int(response.status)}
    )
    return {
        "statusCode": int(response.status),
        "headers": {**_SECURITY_HEADERS, **response.headers},
        "body": response.body,
    }


def _respond(event: Mapping[str, Any], route: Route | None) -> ApiResponse:
    if route is None:
        return ApiResponse.error(HTTPStatus.NOT_FOUND, "there is no such address")
    user = _parse_user(event)
    # API Gateway has verified the token; what it allows is decided here, for every route.
    if route.groups and user is None:
        return ApiResponse.error(HTTPStatus.UNAUTHORIZED, "sign in first")
    if route.groups and user is not None and not route.groups & user.groups:
        wanted = " or ".join(sorted(route.groups))
        return ApiResponse.error(
            HTTPStatus.FORBIDDEN, f"this needs the group {wanted}: ask whoever runs this stack"
        )
    try:
        return route.handler(_parse_request(event, user))
    except InvalidInputError as error:
        return ApiResponse.error(HTTPStatus.BAD_REQUEST, str(error))
    except OncelyError as error:
        telemetry().logger.exception("request not answered")
        return ApiResponse.error(HTTPStatus.BAD_GATEWAY, f"try again in a moment: {error}")
    except Exception:  # noqa: BLE001  # a person gets a sentence, and the log the trace
        telemetry().logger.exception("request broke")
        return ApiResponse.error(
            HTTPStatus.INTERNAL_SERVER_ERROR, "something unforeseen went wrong; the log tells more"
        )


def _parse_request(event: Mapping[str, Any], user: User | None) -> ApiRequest:
    body = str(event.get("body") or "")
    if event.get("isBase64Encoded"):
        body = base64.b64decode(body).decode(errors="replace")
    return ApiRequest(
        user=user,
        query=event.get("queryStringParameters") or {},
        path=event.get("pathParameters") or {},
        body=body,
    )


def _header(event: Mapping[str, Any], name: str) -> str:
    """A header of the request; API Gateway writes their names in lower case."""
    return str((event.get("headers") or {}).get(name, ""))


def _parse_user(event: Mapping[str, Any]) -> User | None:
    claims = event.get("requestContext", {}).get("authorizer", {}).get("jwt", {}).get("claims")
    if not claims:
        return None
    # The user's name, as either kind of token spells it: nobody can change their own.
    names = (claims.get(name) for name in ("cognito:username", "username"))
    name = next((str(name) for name in names if name), "")
    return User(name, _parse_groups(claims.get("cognito:groups"))) if name else None


def _parse_groups(claim: object) -> frozenset[str]:
    """API Gateway hands a list on as text: `[support operator]`.

    Only a blank parts two groups: the name of one may hold commas and brackets.
    """
    if isinstance(claim, list):
        return frozenset(map(str, claim))
    return frozenset(str(claim or "").removeprefix("[").removesuffix("]").split())
