"""Lambda: what an operator changes, and takes out in bulk."""

import os
from http import HTTPStatus
from typing import Any, assert_never

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.clients import Clients
from oncely.adapters.http_api import REPAIRERS, Reply, Request, Route, Routes, answered
from oncely.adapters.list_query import ListQuery
from oncely.adapters.support_desk import SupportDesk, desk
from oncely.contracts import CONTRACTS
from oncely.domain.jobs import Job
from oncely.domain.writes import Json
from oncely.lambda_init import once
from oncely.services.job_view import view_of
from oncely.services.repair_order import (
    Changed,
    LocalRowsRefuse,
    NoAnswer,
    NoSuchJob,
    NotAllowed,
    Repaired,
    WouldRepair,
)
from oncely.settings import ResolverSettings
from oncely.telemetry import observed, telemetry
from repair_jobs.repair_request import RepairRequest
from repair_jobs.spreadsheet import MOST_EXPORTED, spreadsheet


@once
def support() -> SupportDesk:
    """Wire once per execution environment."""
    settings = ResolverSettings.from_env(os.environ, CONTRACTS)
    return desk(settings, CONTRACTS, clients=Clients())


def repair(request: Request) -> Reply:
    """One repair, in the name of the person who signed in."""
    order = RepairRequest.of(request.body).order(actor=request.who.name)
    outcome = support().repairer.repair(order)
    telemetry().repaired(order, outcome)
    match outcome:
        case Repaired(after=after, said=said):
            return Reply.of({"job": _view(after), "said": said})
        case WouldRepair(after=after, said=said):
            return Reply.of({"job": _view(after), "said": said, "dry_run": True})
        case Changed(now=now):
            return Reply.error(HTTPStatus.CONFLICT, "changed, reload", job=_view(now))
        case NotAllowed(why=why) | LocalRowsRefuse(why=why):
            return Reply.error(HTTPStatus.CONFLICT, why)
        case NoSuchJob():
            return Reply.error(HTTPStatus.NOT_FOUND, "there is no such job; search for it instead")
        case NoAnswer(why=why):
            return Reply.error(HTTPStatus.BAD_GATEWAY, why)
        case unreachable:
            assert_never(unreachable)


def export(request: Request) -> Reply:
    """A list as a file that a spreadsheet opens."""
    asked = ListQuery.of(request.query)
    pages = support().inspector.every(
        status=asked.status, job_type=asked.job_type, since=asked.since, until=asked.until
    )
    text, more = spreadsheet(pages, most=MOST_EXPORTED)
    telemetry().exported(request.who.name, dict(request.query))
    return Reply(
        body=text,
        headers={
            "content-type": "text/csv; charset=utf-8",
            "content-disposition": 'attachment; filename="oncely-jobs.csv"',
            "cache-control": "no-store",
            **({"x-oncely-more": "true"} if more else {}),
        },
    )


def _view(job: Job) -> dict[str, Json]:
    desk_now = support().inspector
    return view_of(job, desk_now.registry, now=desk_now.clock.now()).as_json()


ROUTES: Routes = {
    "POST /api/repair": Route(repair, REPAIRERS),
    "GET /api/export": Route(export, REPAIRERS),
}


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return answered(event, ROUTES)
