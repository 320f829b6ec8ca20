"""HTTP for the admin page: routes, users and their groups, responses, and the access log."""

import base64
import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar

from oncely.core.effect_outcomes import Json
from oncely.core.errors import (
    InvalidInputError,
    OncelyError,
    UnavailableError,
    UnreadableRowError,
)
from oncely.core.text import support_text
from oncely.handlers.telemetry import telemetry
from oncely.operate.job_queries import JobPage, SearchResults
from oncely.operate.job_view import JobView
from oncely.operate.page_access import OPERATOR_GROUP, SUPPORT_GROUP

# The message of each line. The queries in docs/privacy-and-security.md select by it.
ACCESS: Final = "access"


@dataclass(frozen=True)
class ShownJob:
    """A job that a response contains."""

    job_key: str
    customer_id: str | None = None

    @classmethod
    def from_view(cls, view: JobView) -> "ShownJob":
        return cls(view.job.job_key, view.job.customer_id)


def shown_jobs(found: JobPage | SearchResults) -> tuple[ShownJob, ...]:
    """The jobs of a list or a search, including those whose row cannot be read."""
    readable = map(ShownJob.from_view, found.jobs)
    return (*readable, *(ShownJob(row.job_key) for row in found.unreadable))


def access_fields(
    jobs: Sequence[ShownJob], digest: Callable[[str], str]
) -> Iterator[dict[str, Any]]:
    """The fields of each shown job, or one set without any."""
    for job in jobs:
        customer = {"customer_digest": digest(job.customer_id)} if job.customer_id else {}
        yield {"job_key": job.job_key, **customer}
    if not jobs:
        yield {}


def log_access(
    jobs: Sequence[dict[str, Any]], *, actor: str | None, route: str, status: int, text: str
) -> None:
    """Write one line for each shown job, or one if there is none. `text` is a digest."""
    typed = {"text_digest": text} if text else {}
    for job in jobs:
        fields = {"actor": actor, "route": route, "status": status, **typed, **job}
        telemetry().logger.info(ACCESS, extra=fields)


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
_T = TypeVar("_T")


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

    @property
    def search_text(self) -> str:
        """What the user searches for."""
        return self.query.get("q", "")

    @property
    def job_key(self) -> str:
        """The job in the query."""
        return self.query.get("key", "")


@dataclass(frozen=True, kw_only=True)
class ApiResponse:
    """The response of a route."""

    status: HTTPStatus = HTTPStatus.OK
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    jobs: Sequence[ShownJob] = ()  # the jobs it contains, for the access log

    @classmethod
    def json(
        cls, content: Json, status: HTTPStatus = HTTPStatus.OK, *, jobs: Sequence[ShownJob] = ()
    ) -> "ApiResponse":
        return cls(
            status=status,
            jobs=jobs,
            body=json.dumps(content, ensure_ascii=False),
            headers={"content-type": "application/json; charset=utf-8", **_NO_STORE},
        )

    def not_modified_if(self, tags: str) -> "ApiResponse":
        known = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
        if self.headers.get("etag") not in known:
            return self
        return ApiResponse(status=HTTPStatus.NOT_MODIFIED, headers=self.headers)

    @classmethod
    def error(
        cls, status: HTTPStatus, message: str, *, jobs: Sequence[ShownJob] = (), **more: Json
    ) -> "ApiResponse":
        return cls.json({"error": support_text(message), **more}, status, jobs=jobs)


@dataclass(frozen=True)
class Route:
    """A handler and the groups that may call it. A route without groups is public."""

    handler: Callable[[ApiRequest], ApiResponse]
    groups: frozenset[str] = frozenset()
    # What the user typed. The access log holds its digest.
    text: Callable[[ApiRequest], str] = lambda _: ""


Routes: TypeAlias = Mapping[str, Route]
READER_GROUPS: Final = frozenset({SUPPORT_GROUP, OPERATOR_GROUP})
REPAIRER_GROUPS: Final = frozenset({OPERATOR_GROUP})


@dataclass(frozen=True, kw_only=True)
class Api:
    """The routes of a function. Each request of a user is logged, even if it is refused."""

    routes: Routes
    digest: Callable[[str], str]  # of text for the access log
    # The groups of a user now. Without it a user keeps the groups of the token until it expires.
    current_groups: Callable[[str], frozenset[str]] | None = None

    def handle(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Handle an API Gateway event. Errors become a message; the log has the stack trace."""
        route_key = str(event.get("routeKey"))
        # API Gateway lowercases header names.
        tags = str((event.get("headers") or {}).get("if-none-match", ""))
        response = self._respond(event, route_key).not_modified_if(tags)
        return {
            "statusCode": int(response.status),
            "headers": {**_SECURITY_HEADERS, **response.headers},
            "body": response.body,
        }

    def _respond(self, event: Mapping[str, Any], route_key: str) -> ApiResponse:
        route = self.routes.get(route_key)
        if route is None:
            response = ApiResponse.error(HTTPStatus.NOT_FOUND, "unknown route: reload the page")
        else:
            request = _parse_request(event, _parse_user(event))
            if route.groups:
                return self._respond_to_user(request, route, route_key)
            response = _attempt(lambda: route.handler(request))
        fields = {"route": route_key, "status": int(response.status)}
        telemetry().logger.info("request handled", extra=fields)
        return response

    def _respond_to_user(self, request: ApiRequest, route: Route, route_key: str) -> ApiResponse:
        """Respond and write the access log. If that fails, nothing is done or shown."""
        typed = route.text(request)
        digest = _attempt(lambda: self.digest(typed) if typed else "", typed)
        response = digest if isinstance(digest, ApiResponse) else self._serve(request, route, typed)
        jobs = _attempt(lambda: [*access_fields(response.jobs, self.digest)])
        if isinstance(jobs, ApiResponse):
            response, jobs = jobs, [{}]
        log_access(
            jobs,
            actor=None if request.user is None else request.user.name,
            route=route_key,
            status=int(response.status),
            text="" if isinstance(digest, ApiResponse) else digest,
        )
        return response

    def _serve(self, request: ApiRequest, route: Route, typed: str) -> ApiResponse:
        return _attempt(lambda: self._refuse(request, route) or route.handler(request), typed)

    def _refuse(self, request: ApiRequest, route: Route) -> ApiResponse | None:
        """Check the groups: API Gateway has verified the token, and nothing else."""
        user = request.user
        if user is None:
            return ApiResponse.error(
                HTTPStatus.UNAUTHORIZED, "not signed in: sign in and try again"
            )
        groups = " or ".join(sorted(route.groups))
        if not route.groups & user.groups:
            return ApiResponse.error(
                HTTPStatus.FORBIDDEN,
                f"access denied: this requires the group {groups}. Ask an administrator to add "
                "you.",
            )
        # The token may have been issued before the user was removed.
        if self.current_groups is not None and not route.groups & self.current_groups(user.name):
            return ApiResponse.error(
                HTTPStatus.FORBIDDEN,
                f"access denied: you are no longer in the group {groups}. If this is wrong, ask an "
                "administrator to add you, and sign in again.",
            )
        return None


def _attempt(step: Callable[[], _T], typed: str = "") -> _T | ApiResponse:
    """Call a handler. An error becomes the response, and its stack trace is logged."""
    try:
        return step()
    except InvalidInputError as error:
        return ApiResponse.error(HTTPStatus.BAD_REQUEST, str(error))
    except UnreadableRowError as error:
        _log_error("row unreadable", error, typed)
        return ApiResponse.error(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
    except OncelyError as error:
        _log_error("request failed", error, typed)
        retry = "try again in a moment: " if isinstance(error, UnavailableError) else ""
        return ApiResponse.error(HTTPStatus.BAD_GATEWAY, f"{retry}{error}")
    except Exception as error:  # noqa: BLE001  # the user gets a message, the log the stack trace
        _log_error("request raised an unexpected error", error, typed)
        return ApiResponse.error(
            HTTPStatus.INTERNAL_SERVER_ERROR, "unexpected error: the stack trace is in the logs"
        )


def _log_error(message: str, error: Exception, typed: str) -> None:
    """Log an error with its stack trace, which may quote what the user typed."""
    trace = "".join(traceback.format_exception(error))
    shown = trace.replace(typed, "(typed)") if typed else trace
    telemetry().logger.error(message, extra={"exception": shown})


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
    # ID and access tokens have the user name in different claims. Users can change neither.
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
