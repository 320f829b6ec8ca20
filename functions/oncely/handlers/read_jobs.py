"""Lambda: serves the admin page and its read-only API."""

from http import HTTPStatus
from typing import Any, Final

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.admin_page.http_api import (
    READER_GROUPS,
    Api,
    ApiRequest,
    ApiResponse,
    Route,
    Routes,
    ShownJob,
    shown_jobs,
)
from oncely.admin_page.list_query import ListQuery, typed_filters
from oncely.admin_page.page_files import PageFiles
from oncely.app import App
from oncely.handlers.lambda_init import once, once_with_app
from oncely.handlers.telemetry import instrumented
from oncely.operate.pauses import gates_to_json

# Rejects or reports on one page. Each reject is one read from the archive.
MAX_LISTED: Final = 50


@once_with_app
def get_app(app: App) -> App:
    """Build once per execution environment."""
    ports = app.ports
    _ = app.job_queries, ports.job_store(), ports.job_index, ports.due_index, ports.history
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
            "job_types": [*sorted(contract.job_type for contract in get_app().registry)],
        }
    )


def search_jobs(request: ApiRequest) -> ApiResponse:
    """Search by order, customer, provider reference or job key."""
    found = get_app().job_queries.search(request.search_text)
    return ApiResponse.json(found.to_json(), jobs=shown_jobs(found))


def list_jobs(request: ApiRequest) -> ApiResponse:
    """Return one page of a list."""
    query = ListQuery.from_query_string(request.query)
    queries = get_app().job_queries
    listed = queries.list_page(query.wanted, cursor=query.cursor, limit=query.limit)
    return ApiResponse.json(listed.to_json(), jobs=shown_jobs(listed))


def get_job(request: ApiRequest) -> ApiResponse:
    """Return one job with its timeline, repairs and contract."""
    view = get_app().job_queries.get(request.job_key)
    if view is None:
        return ApiResponse.error(
            HTTPStatus.NOT_FOUND, "job not found: check the key, or search by order or customer"
        )
    shown = view.with_rejects(get_app().rejected_messages)
    content = shown.to_json()
    if request.require_user.can_repair:  # support agents see no names of AWS
        content["row_url"] = get_app().job_queries.links.of_row(view.job.job_key)
    return ApiResponse.json(content, jobs=[ShownJob.from_view(view)])


def get_counts(_request: ApiRequest) -> ApiResponse:
    """Return the counts of jobs that need attention."""
    return ApiResponse.json(get_app().job_queries.counts().to_json())


def get_gates(_request: ApiRequest) -> ApiResponse:
    """Return what is held, what can be paused, and who paused what."""
    switch = get_app().pause_switch
    return ApiResponse.json({**gates_to_json(switch.snapshot()), "targets": [*switch.targets()]})


def get_overview(_request: ApiRequest) -> ApiResponse:
    """Return queues, providers, and the jobs in review by cause."""
    state = get_app().overview.state()
    shown = [ShownJob.from_view(group.newest) for group in state.reviews]
    return ApiResponse.json(state.to_json(), jobs=shown)


def get_metrics(_request: ApiRequest) -> ApiResponse:
    """Return the outcomes of the last 7 days by hour."""
    return ApiResponse.json(get_app().overview.metrics().to_json())


def list_rejects(_request: ApiRequest) -> ApiResponse:
    """Return the latest rejected messages, with email addresses masked."""
    found = get_app().rejected_messages.recent(limit=MAX_LISTED)
    shown = [ShownJob(view.job_key) for view in found if view.job_key]
    return ApiResponse.json({"rejects": [view.to_json() for view in found]}, jobs=shown)


def list_audits(_request: ApiRequest) -> ApiResponse:
    """Return the reports of the latest daily audits."""
    found = get_app().ports.audit_reports.recent_audits(limit=MAX_LISTED)
    return ApiResponse.json({"audits": [audit.to_json() for audit in found]})


def get_audit(request: ApiRequest) -> ApiResponse:
    """Return one report."""
    lines = get_app().ports.audit_reports.read_audit(request.query.get("name", ""))
    if lines is None:
        return ApiResponse.error(
            HTTPStatus.NOT_FOUND, "report not found: it may have expired; open the list again"
        )
    keys = (line.get("job_key") for line in lines)
    shown = [ShownJob(key) for key in dict.fromkeys(keys) if isinstance(key, str)]
    return ApiResponse.json({"lines": [*lines]}, jobs=shown)


ROUTES: Routes = {
    "GET /": Route(lambda _: get_page_files().index),
    "GET /config.json": Route(lambda _: get_page_files().config),
    "GET /page/{version}/{file}": Route(lambda request: get_page_files().file(**request.path)),
    "GET /api/me": Route(current_user, READER_GROUPS),
    "GET /api/find": Route(search_jobs, READER_GROUPS, lambda request: request.search_text),
    "GET /api/jobs": Route(list_jobs, READER_GROUPS, lambda one: typed_filters(one.query)),
    "GET /api/job": Route(get_job, READER_GROUPS, lambda request: request.job_key),
    "GET /api/counts": Route(get_counts, READER_GROUPS),
    "GET /api/gates": Route(get_gates, READER_GROUPS),
    "GET /api/overview": Route(get_overview, READER_GROUPS),
    "GET /api/metrics": Route(get_metrics, READER_GROUPS),
    "GET /api/rejects": Route(list_rejects, READER_GROUPS),
    "GET /api/audits": Route(list_audits, READER_GROUPS),
    "GET /api/audit": Route(get_audit, READER_GROUPS),
}


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Handle one request."""
    return Api(routes=ROUTES, digest=get_app().text_digester.digest).handle(event)
