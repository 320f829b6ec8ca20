"""Lambda: what an operator changes, and takes out in bulk."""

import os
from http import HTTPStatus
from typing import Any, assert_never

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.admin_page.csv_export import MAX_EXPORTED_JOBS, to_csv
from oncely.admin_page.http_api import (
    REPAIRER_GROUPS,
    ApiRequest,
    ApiResponse,
    Route,
    Routes,
    handle_event,
)
from oncely.admin_page.list_query import ListQuery
from oncely.admin_page.repair_body import RepairBody
from oncely.app import App
from oncely.domain.effect_outcomes import Json
from oncely.domain.jobs import Job
from oncely.jobs import CONTRACTS
from oncely.lambda_init import once
from oncely.operate.job_view import build_view
from oncely.operate.repair_request import (
    BusinessRowConflict,
    JobNotFound,
    NotAllowed,
    ProviderUnavailable,
    Repaired,
    StaleVersion,
    WouldRepair,
)
from oncely.telemetry import instrumented, telemetry


@once
def get_app() -> App:
    """Built once per execution environment."""
    app = App.from_env(os.environ, CONTRACTS)
    _ = app.repairer, app.job_queries
    return app


def repair(request: ApiRequest) -> ApiResponse:
    """One repair, in the name of the person who signed in."""
    repair_request = RepairBody.parse(request.body).to_request(actor=request.require_user.name)
    outcome = get_app().repairer.repair(repair_request)
    telemetry().repair_attempted(repair_request, outcome)
    match outcome:
        case Repaired(after=after, summary=said):
            return ApiResponse.json({"job": _view_json(after), "said": said})
        case WouldRepair(after=after, summary=said):
            return ApiResponse.json({"job": _view_json(after), "said": said, "dry_run": True})
        case StaleVersion(current=now):
            return ApiResponse.error(HTTPStatus.CONFLICT, "changed, reload", job=_view_json(now))
        case NotAllowed(reason=why) | BusinessRowConflict(reason=why):
            return ApiResponse.error(HTTPStatus.CONFLICT, why)
        case JobNotFound():
            return ApiResponse.error(
                HTTPStatus.NOT_FOUND, "there is no such job; search for it instead"
            )
        case ProviderUnavailable(reason=why):
            return ApiResponse.error(HTTPStatus.BAD_GATEWAY, why)
        case unreachable:
            assert_never(unreachable)


def export(request: ApiRequest) -> ApiResponse:
    """A list as a file that a spreadsheet opens."""
    list_query = ListQuery.from_query_string(request.query)
    pages = get_app().job_queries.iter_pages(
        status=list_query.status,
        job_type=list_query.job_type,
        since=list_query.since,
        until=list_query.until,
    )
    text, more = to_csv(pages, max_jobs=MAX_EXPORTED_JOBS)
    telemetry().jobs_exported(request.require_user.name, dict(request.query))
    return ApiResponse(
        body=text,
        headers={
            "content-type": "text/csv; charset=utf-8",
            "content-disposition": 'attachment; filename="oncely-jobs.csv"',
            "cache-control": "no-store",
            **({"x-oncely-more": "true"} if more else {}),
        },
    )


def _view_json(job: Job) -> dict[str, Json]:
    queries = get_app().job_queries
    return build_view(job, queries.registry, now=queries.clock.now()).to_json()


ROUTES: Routes = {
    "POST /api/repair": Route(repair, REPAIRER_GROUPS),
    "GET /api/export": Route(export, REPAIRER_GROUPS),
}


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return handle_event(event, ROUTES)
