"""Lambda: the page of the support view, and everything that it reads."""

import os
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.admin_page.http_api import (
    READER_GROUPS,
    ApiRequest,
    ApiResponse,
    Route,
    Routes,
    handle_event,
)
from oncely.admin_page.list_query import ListQuery
from oncely.admin_page.page_files import PageFiles
from oncely.app import App
from oncely.jobs import CONTRACTS
from oncely.lambda_init import once
from oncely.telemetry import instrumented


@once
def get_app() -> App:
    """Built once per execution environment."""
    app = App.from_env(os.environ, CONTRACTS)
    _ = app.job_queries
    return app


@once
def get_page_files() -> PageFiles:
    """The page's files, with what they must know of this stack."""
    settings = get_app().settings
    settings.require("sign_in_url", "sign_in_client_id", "stack_name")
    return PageFiles.load(
        sign_in=str(settings.sign_in_url),
        client_id=str(settings.sign_in_client_id),
        stack=settings.stack_name,
    )


def current_user(request: ApiRequest) -> ApiResponse:
    """Who is signed in, what that allows, and which kinds of job there are to choose from."""
    user = request.require_user
    return ApiResponse.json(
        {
            "name": user.name,
            "groups": [*sorted(user.groups)],
            "can_repair": user.can_repair,
            "job_types": [*sorted(kind.job_type for kind in CONTRACTS)],
        }
    )


def search_jobs(request: ApiRequest) -> ApiResponse:
    """One box: an order, a customer, a reference, a job key."""
    found = get_app().job_queries.search(request.query.get("q", ""))
    views = [view.to_summary_json() for view in found.jobs]
    return ApiResponse.json({"query": found.query, "jobs": [*views]})


def list_jobs(request: ApiRequest) -> ApiResponse:
    """A list with pages."""
    listed = get_app().job_queries.list_page(**vars(ListQuery.from_query_string(request.query)))
    return ApiResponse.json(
        {"jobs": [view.to_summary_json() for view in listed.jobs], "cursor": listed.cursor}
    )


def get_job(request: ApiRequest) -> ApiResponse:
    """One job."""
    view = get_app().job_queries.get(request.query.get("key", ""))
    if view is None:
        return ApiResponse.error(
            HTTPStatus.NOT_FOUND, "there is no such job; search for it instead"
        )
    return ApiResponse.json(view.to_json())


def get_counts(_request: ApiRequest) -> ApiResponse:
    """How things stand."""
    return ApiResponse.json(get_app().job_queries.counts().to_json())


ROUTES: Routes = {
    "GET /": Route(lambda _: get_page_files().index),
    "GET /config.json": Route(lambda _: get_page_files().config),
    "GET /page/{version}/{file}": Route(lambda request: get_page_files().file(**request.path)),
    "GET /api/me": Route(current_user, READER_GROUPS),
    "GET /api/find": Route(search_jobs, READER_GROUPS),
    "GET /api/jobs": Route(list_jobs, READER_GROUPS),
    "GET /api/job": Route(get_job, READER_GROUPS),
    "GET /api/counts": Route(get_counts, READER_GROUPS),
}


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return handle_event(event, ROUTES)
