"""Lambda: serves the admin page and its read-only API."""

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
from oncely.aws.ports import app_from_env
from oncely.jobs import CONTRACTS
from oncely.lambda_init import once
from oncely.telemetry import instrumented


@once
def get_app() -> App:
    """Build once per execution environment."""
    app = app_from_env(os.environ, CONTRACTS)
    _ = app.job_queries
    return app


@once
def get_page_files() -> PageFiles:
    """Build once per execution environment."""
    settings = get_app().settings
    settings.require("sign_in_url", "sign_in_client_id", "stack_name")
    return PageFiles.load(
        sign_in=str(settings.sign_in_url),
        client_id=str(settings.sign_in_client_id),
        stack=settings.stack_name,
    )


def current_user(request: ApiRequest) -> ApiResponse:
    """Return the signed-in user, their permissions, and the deployed job types."""
    user = request.require_user
    return ApiResponse.json(
        {
            "name": user.name,
            "groups": [*sorted(user.groups)],
            "can_repair": user.can_repair,
            "job_types": [*sorted(contract.job_type for contract in CONTRACTS)],
        }
    )


def search_jobs(request: ApiRequest) -> ApiResponse:
    """Search by order, customer, provider reference or job key."""
    return ApiResponse.json(get_app().job_queries.search(request.query.get("q", "")).to_json())


def list_jobs(request: ApiRequest) -> ApiResponse:
    """Return one page of a list."""
    listed = get_app().job_queries.list_page(**vars(ListQuery.from_query_string(request.query)))
    return ApiResponse.json(listed.to_json())


def get_job(request: ApiRequest) -> ApiResponse:
    """Return one job with its timeline, repairs and contract."""
    view = get_app().job_queries.get(request.query.get("key", ""))
    if view is None:
        return ApiResponse.error(
            HTTPStatus.NOT_FOUND, "job not found: check the key, or search by order or customer"
        )
    return ApiResponse.json(view.to_json())


def get_counts(_request: ApiRequest) -> ApiResponse:
    """Return the counts of jobs that need attention."""
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
    """Handle one request."""
    return handle_event(event, ROUTES)
