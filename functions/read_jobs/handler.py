"""Lambda: the page of the support view, and everything that it reads."""

import os
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.clients import Clients
from oncely.adapters.http_api import READERS, Reply, Request, Route, Routes, answered
from oncely.adapters.list_query import ListQuery
from oncely.adapters.support_desk import inspector
from oncely.contracts import CONTRACTS
from oncely.lambda_init import once
from oncely.services.inspect import Inspector
from oncely.settings import ReaderSettings
from oncely.telemetry import observed
from read_jobs.page_files import PageFiles


@once
def settings() -> ReaderSettings:
    """Read once per execution environment."""
    return ReaderSettings.from_env(os.environ)


@once
def jobs() -> Inspector:
    """Wire once per execution environment."""
    known = settings()
    return inspector(known, CONTRACTS, clients=Clients())


@once
def page() -> PageFiles:
    """The page's files, with what they must know of this stack."""
    known = settings()
    return PageFiles.of(
        sign_in=known.sign_in_url, client_id=known.client_id, stack=known.stack_name
    )


def me(request: Request) -> Reply:
    """Who is signed in, what that allows, and which kinds of job there are to choose from."""
    who = request.who
    return Reply.of(
        {
            "name": who.name,
            "groups": [*sorted(who.groups)],
            "may_repair": who.may_repair,
            "job_types": [*sorted(kind.job_type for kind in CONTRACTS)],
        }
    )


def find(request: Request) -> Reply:
    """One box: an order, a customer, a reference, a job key."""
    found = jobs().find(request.query.get("q", ""))
    views = [view.as_short_json() for view in found.jobs]
    return Reply.of({"query": found.query, "jobs": [*views]})


def list_jobs(request: Request) -> Reply:
    """A list with pages."""
    listed = jobs().page(**vars(ListQuery.of(request.query)))
    return Reply.of(
        {"jobs": [view.as_short_json() for view in listed.jobs], "cursor": listed.cursor}
    )


def show(request: Request) -> Reply:
    """One job."""
    view = jobs().show(request.query.get("key", ""))
    if view is None:
        return Reply.error(HTTPStatus.NOT_FOUND, "there is no such job; search for it instead")
    return Reply.of(view.as_json())


def counts(_request: Request) -> Reply:
    """How things stand."""
    return Reply.of(jobs().counts().as_json())


ROUTES: Routes = {
    "GET /": Route(lambda _: page().index),
    "GET /config.json": Route(lambda _: page().config),
    "GET /page/{version}/{file}": Route(lambda request: page().file(**request.path)),
    "GET /api/me": Route(me, READERS),
    "GET /api/find": Route(find, READERS),
    "GET /api/jobs": Route(list_jobs, READERS),
    "GET /api/job": Route(show, READERS),
    "GET /api/counts": Route(counts, READERS),
}


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return answered(event, ROUTES)
