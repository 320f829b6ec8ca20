"""Lambda: repairs and exports for operators, and searches at the providers."""

import os
from http import HTTPStatus
from typing import Any, Final, assert_never

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.admin_page.access_log import ShownJob, shown_jobs
from oncely.admin_page.http_api import (
    READER_GROUPS,
    REPAIRER_GROUPS,
    Api,
    ApiRequest,
    ApiResponse,
    Route,
    Routes,
)
from oncely.admin_page.job_export import MAX_EXPORTED_JOBS, ExportFormat, export_jobs
from oncely.admin_page.list_query import ListQuery, typed_filters
from oncely.admin_page.request_bodies import (
    BulkContinueBody,
    BulkStartBody,
    PauseBody,
    RepairBody,
    ResendBody,
)
from oncely.alerts.headlines import sentence
from oncely.app import App, app_from_env
from oncely.contracts.job_names import jobs_from_env
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.text import format_time
from oncely.gates.gate import PauseAction
from oncely.handlers.lambda_init import once
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.operate.job_view import JobView
from oncely.operate.operator_sender import OperatorSend
from oncely.operate.repair_request import (
    BusinessRowConflict,
    Contradicted,
    JobNotFound,
    NotAllowed,
    ProviderUnavailable,
    Repaired,
    StaleVersion,
    WouldRepair,
)

# Each takes a few reads and writes, and a lookup at the provider if it is marked as failed. A
# request takes 30 seconds at most.
BULK_PAGE_SIZE: Final = 10
_STALE: Final = "the job changed since you opened it: reload and check again"


@once
def get_app() -> App:
    """Build once per execution environment."""
    app = app_from_env(os.environ, jobs_from_env(os.environ))
    ports = app.ports
    _ = app.repairer, app.reconciler, app.enqueuer, app.job_queries
    _ = ports.job_index, ports.due_index, ports.history, ports.user_directory
    return app


def repair(request: ApiRequest) -> ApiResponse:
    """Apply one repair as the signed-in operator."""
    repair_request = RepairBody.parse(request.body).to_request(actor=request.require_user.name)
    outcome = get_app().repairer.repair(repair_request)
    if not isinstance(outcome, JobNotFound):  # then the key is only a text that someone typed
        telemetry().repair_attempted(repair_request, outcome)
    match outcome:
        case Repaired(after=after, details=details) | WouldRepair(after=after, details=details):
            view = _view(after)
            content = {**details.to_json(), "dry_run": repair_request.dry_run}
            shown = [ShownJob.from_view(view)]
            return ApiResponse.json({"job": view.to_json(), **content}, jobs=shown)
        case StaleVersion(current=now):
            view = _view(now)
            shown = [ShownJob.from_view(view)]
            return ApiResponse.error(HTTPStatus.CONFLICT, _STALE, jobs=shown, job=view.to_json())
        case NotAllowed(reason=reason) | BusinessRowConflict(reason=reason):
            return ApiResponse.error(HTTPStatus.CONFLICT, reason, jobs=_existing(request))
        case Contradicted(claim=claim, lookup=lookup, fix=fix):
            both: dict[str, Json] = {"claim": claim, "lookup": {**vars(lookup)}, "fix": fix}
            shown = _existing(request)
            return ApiResponse.error(
                HTTPStatus.CONFLICT, outcome.reason, jobs=shown, contradiction=both
            )
        case JobNotFound():
            return ApiResponse.error(
                HTTPStatus.NOT_FOUND, "job not found: check the key, or search by order or customer"
            )
        case ProviderUnavailable(reason=reason):
            return ApiResponse.error(HTTPStatus.BAD_GATEWAY, reason, jobs=_existing(request))
        case unreachable:
            assert_never(unreachable)


def pause(request: ApiRequest) -> ApiResponse:
    """Pause or resume a job type, a queue or a provider as the signed-in operator."""
    body, actor = PauseBody.parse(request.body), request.require_user.name
    action = PauseAction(body.action)
    done = get_app().pause_switch.change(body.target, action, actor=actor, reason=body.reason)
    telemetry().pause_changed(done.pause, actor=actor)
    return ApiResponse.json({"target": done.pause.target, "paused": done.pause.current is not None})


def search_at_providers(request: ApiRequest) -> ApiResponse:
    """Search by an id of a provider, or by a customer's email."""
    found = get_app().provider_search.search(request.search_text)
    return ApiResponse.json(found.to_json(), jobs=shown_jobs(found))


def look_up(request: ApiRequest) -> ApiResponse:
    """Return what the provider says about a job now. Changes nothing."""
    view = get_app().job_queries.get(request.job_key)
    if view is None:
        return ApiResponse.error(HTTPStatus.NOT_FOUND, "job not found: search by order or customer")
    answer = get_app().verdict_lookup.look_up(view.job.job_key)
    fields = {"job_key": view.job.job_key, **vars(answer)}
    return ApiResponse.json(fields, jobs=[ShownJob.from_view(view)])


def start_bulk(request: ApiRequest) -> ApiResponse:
    """Select jobs: count them and show examples, or save the selection as a run."""
    body, actor = BulkStartBody.parse(request.body), request.require_user.name
    bulk = get_app().bulk_repairer
    selection = body.to_selection(bulk)
    previews = bulk.preview(selection, reason=body.reason, actor=actor)
    run = None
    if not body.dry_run:
        run = bulk.start(selection, reason=body.reason, actor=actor)
        telemetry().bulk_run_started(run)
    content: dict[str, Json] = {
        "run_id": None if run is None else run.run_id,
        "jobs": len(selection.jobs),
        "refused": {**selection.refused},
        "complete": selection.is_complete,
        "examples": [one.to_json() for one in previews],
    }
    return ApiResponse.json(content, jobs=[ShownJob.from_view(one) for one in selection.examples])


def continue_bulk(request: ApiRequest) -> ApiResponse:
    """Repair the next jobs of a run. The page calls it until none is left."""
    body = BulkContinueBody.parse(request.body)
    bulk = get_app().bulk_repairer
    run, user = bulk.load(body.run_id), request.require_user.name
    start = min(max(body.start, 0), len(run.jobs))
    limit = BULK_PAGE_SIZE if body.limit is None else min(max(body.limit, 0), BULK_PAGE_SIZE)
    results = list(bulk.perform(run, actor=user, start=start, limit=limit))
    content: dict[str, Json] = {
        "run_id": run.run_id,
        "repair": run.repair,
        "label": run.repair.label,
        "reason": run.reason,
        "actor": run.actor,
        "created_at": format_time(run.created_at),
        "jobs": len(run.jobs),
        "answered": start + len(results),
        "results": [one.to_json() for one in results],
    }
    views = (get_app().job_queries.get(one.key) for one in results)
    return ApiResponse.json(content, jobs=[ShownJob.from_view(one) for one in views if one])


def resend_reject(request: ApiRequest) -> ApiResponse:
    """Send a rejected message as the signed-in operator edited it."""
    body, user = ResendBody.parse(request.body), request.require_user.name
    service = get_app().reject_resender
    message = service.edited(body.name, body.message)
    sent = service.resend(body.name, message, OperatorSend(actor=user, reason=body.reason))
    shown = [ShownJob(sent.job_key)]
    if sent.conflict:
        reason = f"refused: {sent.job_key} has other values. {sentence(sent.conflict)}"
        return ApiResponse.error(HTTPStatus.CONFLICT, reason, jobs=shown)
    telemetry().reject_resent(body.name, sent.job_key, actor=user)
    content: dict[str, Json] = {
        "job_key": sent.job_key,
        "status_label": sent.status.label,
        "created": sent.created,
        "needs_second_operator": sent.waits is not None,
    }
    return ApiResponse.json(content, jobs=shown)


def _bulk_text(request: ApiRequest) -> str:
    """The filters that a user typed."""
    try:
        body = BulkStartBody.parse(request.body)
    except InvalidRequestError:
        return ""
    return " ".join(filter(None, (body.customer_id, body.error)))


def export(request: ApiRequest) -> ApiResponse:
    """Return a list as a file: CSV, or JSON."""
    form = ExportFormat.parse(request.query.get("format"))
    rest = {name: value for name, value in request.query.items() if name != "format"}
    query = ListQuery.from_query_string(rest)
    names = ("status", "job_type", "since", "until", "rows")
    pages = get_app().job_queries.iter_pages(**{name: getattr(query, name) for name in names})
    exported = export_jobs(pages, form, max_jobs=MAX_EXPORTED_JOBS)
    return ApiResponse(
        body=exported.text,
        jobs=exported.jobs,
        headers={
            "content-type": form.content_type,
            "content-disposition": f'attachment; filename="oncely-jobs.{form}"',
            "cache-control": "no-store",
            **({"x-oncely-truncated": "true"} if exported.truncated else {}),
        },
    )


def _view(job: JobRow) -> JobView:
    return get_app().job_queries.view(job)


def _existing(request: ApiRequest) -> list[ShownJob]:
    """The job that a refusal tells about, unless its key is only a text that someone typed."""
    view = get_app().job_queries.get(_requested_key(request))
    return [] if view is None else [ShownJob.from_view(view)]


def _requested_key(request: ApiRequest) -> str:
    try:
        return RepairBody.parse(request.body).key
    except InvalidRequestError:
        return ""  # the repair itself says what is wrong


ROUTES: Routes = {
    "GET /api/lookup": Route(look_up, READER_GROUPS, lambda request: request.job_key),
    "GET /api/resolve": Route(
        search_at_providers, READER_GROUPS, lambda request: request.search_text
    ),
    "POST /api/repair": Route(repair, REPAIRER_GROUPS, _requested_key),
    "POST /api/pause": Route(pause, REPAIRER_GROUPS),
    "POST /api/bulk": Route(start_bulk, REPAIRER_GROUPS, _bulk_text),
    "POST /api/bulk/continue": Route(continue_bulk, REPAIRER_GROUPS),
    "POST /api/rejects/resend": Route(resend_reject, REPAIRER_GROUPS),
    "GET /api/export": Route(export, REPAIRER_GROUPS, lambda one: typed_filters(one.query)),
}


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Handle one request."""
    app = get_app()
    return Api(
        routes=ROUTES,
        digest=app.text_digester.digest,
        current_groups=app.ports.user_directory.groups,
    ).handle(event)
