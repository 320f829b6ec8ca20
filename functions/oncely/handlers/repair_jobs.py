"""Lambda: repairs and exports, for operators only."""

import os
from http import HTTPStatus
from typing import Any, Final, assert_never

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
from oncely.aws.ports import app_from_env
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

_STALE: Final = "the job changed since you opened it: reload and check again"


@once
def get_app() -> App:
    """Build once per execution environment."""
    app = app_from_env(os.environ, CONTRACTS)
    _ = app.repairer, app.job_queries
    return app


def repair(request: ApiRequest) -> ApiResponse:
    """Apply one repair as the signed-in operator."""
    repair_request = RepairBody.parse(request.body).to_request(actor=request.require_user.name)
    outcome = get_app().repairer.repair(repair_request)
    telemetry().repair_attempted(repair_request, outcome)
    match outcome:
        case Repaired(after=after, details=details) | WouldRepair(after=after, details=details):
            return ApiResponse.json(
                {"job": _view_json(after), **details.to_json(), "dry_run": repair_request.dry_run}
            )
        case StaleVersion(current=now):
            return ApiResponse.error(HTTPStatus.CONFLICT, _STALE, job=_view_json(now))
        case NotAllowed(reason=reason) | BusinessRowConflict(reason=reason):
            return ApiResponse.error(HTTPStatus.CONFLICT, reason)
        case JobNotFound():
            return ApiResponse.error(
                HTTPStatus.NOT_FOUND, "job not found: check the key, or search by order or customer"
            )
        case ProviderUnavailable(reason=reason):
            return ApiResponse.error(HTTPStatus.BAD_GATEWAY, reason)
        case unreachable:
            assert_never(unreachable)


def export(request: ApiRequest) -> ApiResponse:
    """Return a list as a CSV file."""
    query = ListQuery.from_query_string(request.query)
    wanted = {name: getattr(query, name) for name in ("status", "job_type", "since", "until")}
    pages = get_app().job_queries.iter_pages(**wanted)
    text, truncated = to_csv(pages, max_jobs=MAX_EXPORTED_JOBS)
    telemetry().jobs_exported(request.require_user.name, dict(request.query))
    return ApiResponse(
        body=text,
        headers={
            "content-type": "text/csv; charset=utf-8",
            "content-disposition": 'attachment; filename="oncely-jobs.csv"',
            "cache-control": "no-store",
            **({"x-oncely-truncated": "true"} if truncated else {}),
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
    """Handle one request."""
    return handle_event(event, ROUTES)
