"""HTTP for the admin page: routes, users and their groups, responses and security headers."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from oncely.domain.effect_outcomes import Json
from oncely.domain.errors import (
    InvalidInputError,
    OncelyError,
    UnavailableError,
    UnreadableRowError,
)
from oncely.domain.text import mask_emails
from oncely.telemetry import telemetry

SUPPORT_GROUP: Final = "support"  # reads
OPERATOR_GROUP: Final = "operator"  # reads, repairs and exports

# Sent with every response. The page's own files have a wider content security policy.
_SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "strict-transport-security": "max-age=31536000",
}
# Responses about jobs are private and change at any time.
_NO_STORE: Final = {"cache-control": "no-store"}


@dataclass(frozen=True)
class User:
    """The signed-in user, as verified by API Gateway."""

    name: str
    groups: frozenset[str]

    @property
    def can_repair(self) -> bool:
        return OPERATOR_GROUP in self.groups


@dataclass(frozen=True, kw_only=True)
class ApiRequest:
    """One request to a route."""

    user: User | None
    query: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    body: str = ""

    @property
    def require_user(self) -> User:
        """The user. A route that requires groups always has one."""
        if self.user is None:
            raise LookupError("this route has no authenticated user")
        return self.user


@dataclass(frozen=True, kw_only=True)
class ApiResponse:
    """The response of a route."""

    status: HTTPStatus = HTTPStatus.OK
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, content: Json, status: HTTPStatus = HTTPStatus.OK) -> "ApiResponse":
        return cls(
            status=status,
            body=json.dumps(content, ensure_ascii=False),
            headers={"content-type": "application/json; charset=utf-8", **_NO_STORE},
        )

    def not_modified_if(self, tags: str) -> "ApiResponse":
        known = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
        if self.headers.get("etag") not in known:
            return self
        return ApiResponse(status=HTTPStatus.NOT_MODIFIED, headers=self.headers)

    @classmethod
    def error(cls, status: HTTPStatus, message: str, **more: Json) -> "ApiResponse":
        return cls.json({"error": message, **more}, status)


@dataclass(frozen=True)
class Route:
    """A handler and the groups that may call it. No groups: the route is public."""

    handler: Callable[[ApiRequest], ApiResponse]
    groups: frozenset[str] = frozenset()


Routes: TypeAlias = Mapping[str, Route]
READER_GROUPS: Final = frozenset({SUPPORT_GROUP, OPERATOR_GROUP})
REPAIRER_GROUPS: Final = frozenset({OPERATOR_GROUP})


def handle_event(event: Mapping[str, Any], routes: Routes) -> dict[str, Any]:
    """Handle an API Gateway event. Errors become a message; the log has the stack trace."""
    route_key = str(event.get("routeKey"))
    # API Gateway lowercases header names.
    tags = str((event.get("headers") or {}).get("if-none-match", ""))
    response = _respond(event, routes.get(route_key)).not_modified_if(tags)
    status = int(response.status)
    telemetry().logger.info("request handled", extra={"route": route_key, "status": status})
    return {
        "statusCode": status,
        "headers": {**_SECURITY_HEADERS, **response.headers},
        "body": response.body,
    }


def _respond(event: Mapping[str, Any], route: Route | None) -> ApiResponse:
    if route is None:
        return ApiResponse.error(HTTPStatus.NOT_FOUND, "unknown route: reload the page")
    user = _parse_user(event)
    # API Gateway has verified the token. The groups are checked here, for every route.
    if route.groups and user is None:
        return ApiResponse.error(HTTPStatus.UNAUTHORIZED, "not signed in: sign in and try again")
    if route.groups and user is not None and not route.groups & user.groups:
        groups = " or ".join(sorted(route.groups))
        return ApiResponse.error(
            HTTPStatus.FORBIDDEN,
            f"access denied: this requires the group {groups}. Ask an administrator to add you.",
        )
    try:
        return route.handler(_parse_request(event, user))
    except InvalidInputError as error:
        return ApiResponse.error(HTTPStatus.BAD_REQUEST, str(error))
    except UnreadableRowError as error:
        telemetry().logger.exception("row unreadable")
        return ApiResponse.error(HTTPStatus.UNPROCESSABLE_ENTITY, mask_emails(str(error)))
    except OncelyError as error:
        telemetry().logger.exception("request failed")
        retry = "try again in a moment: " if isinstance(error, UnavailableError) else ""
        return ApiResponse.error(HTTPStatus.BAD_GATEWAY, f"{retry}{error}")
    except Exception:  # noqa: BLE001  # the user gets a message, the log the stack trace
        telemetry().logger.exception("request raised an unexpected error")
        return ApiResponse.error(
            HTTPStatus.INTERNAL_SERVER_ERROR, "unexpected error: the stack trace is in the logs"
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


def _parse_user(event: Mapping[str, Any]) -> User | None:
    claims = event.get("requestContext", {}).get("authorizer", {}).get("jwt", {}).get("claims")
    if not claims:
        return None
    # ID tokens and access tokens name the user differently. Users cannot change either claim.
    names = (claims.get(name) for name in ("cognito:username", "username"))
    name = next((str(name) for name in names if name), "")
    return User(name, _parse_groups(claims.get("cognito:groups"))) if name else None


def _parse_groups(claim: object) -> frozenset[str]:
    """API Gateway passes a list as text: `[support operator]`.

    Only spaces separate groups, because a group name may contain commas and brackets.
    """
    if isinstance(claim, list):
        return frozenset(map(str, claim))
    return frozenset(str(claim or "").removeprefix("[").removesuffix("]").split())
