"""The access log: every view, search, export and repair, even if refused, without typed text."""

import io
import json
import logging
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pytest

from oncely.admin_page.http_api import ACCESS, Api, ApiRequest, ApiResponse, Route
from oncely.app import App
from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.handlers import read_jobs, repair_jobs
from oncely.handlers.telemetry import telemetry
from oncely.operate.daily_audit import StoredAudit
from oncely.operate.page_access import TextDigester
from tests.docs.pages import page
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import world_with_review_job
from tests.support.stored_rows import InspectableStore
from tests.unit.job_view_fixtures import KEY, many_reviews

ADA: Final = "ada@example.com"
AUDIT: Final = "20261115T000000Z-20261116T000000Z-1"
CUSTOMER: Final = "customer_7"
VERSION: Final = 3  # of an unknown charge
DIGEST: Final = TextDigester(lambda: "key of the access log").digest


class Lines:
    """The log lines of this test."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def all(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    @property
    def access(self) -> list[dict[str, Any]]:
        lines = map(json.loads, self.all)
        return [line for line in lines if line["message"] == ACCESS]


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    (handler,) = telemetry().logger.handlers
    assert isinstance(handler, logging.StreamHandler)
    lines = Lines()
    monkeypatch.setattr(handler, "stream", lines.stream)
    return lines


@dataclass
class Directory:
    """The user pool: who is in which group now."""

    members: dict[str, set[str]] = field(default_factory=lambda: {ADA: {"operator"}})

    def groups(self, user: str) -> frozenset[str]:
        return frozenset(self.members.get(user, ()))


class Page:
    """Both functions of the admin page over a stack in memory."""

    def __init__(self, world: InMemoryStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = Directory()
        self.app: App = world.app(user_directory=self.directory)
        for module in (read_jobs, repair_jobs):
            monkeypatch.setattr(module, "get_app", lambda: self.app)

    def call(self, route: str, groups: str = "[operator]", body: str = "", **query: str) -> Any:  # noqa: ANN401  # Lambda's own form
        module: Any = read_jobs if route in read_jobs.ROUTES else repair_jobs
        claims = {"cognito:username": ADA, "cognito:groups": groups}
        event = {
            "routeKey": route,
            "requestContext": {"authorizer": {"jwt": {"claims": claims}}},
            "queryStringParameters": query,
            "body": body,
        }
        return vars(module.handler)["__wrapped__"](event, None)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Page:
    world = InMemoryStack(deployment="dev")
    world.add_order(customer_id=CUSTOMER)
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    assert world.job(KEY).version == VERSION
    return Page(world, monkeypatch)


def repair_body(key: str = KEY, **changes: object) -> str:
    asked = {
        "key": key,
        "repair": "lookup",
        "version": VERSION,
        "reason": "a call",
        "dry_run": True,
    }
    return json.dumps({**asked, **changes})


REQUESTS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "job": ("GET /api/job", {"key": KEY}),
    "search": ("GET /api/find", {"q": CUSTOMER}),
    "search at providers": ("GET /api/resolve", {"q": "ch_1"}),
    "lookup": ("GET /api/lookup", {"key": KEY}),
    "list": ("GET /api/jobs", {"status": "unknown"}),
    "export": ("GET /api/export", {"status": "unknown"}),
    "repair": ("POST /api/repair", {"body": repair_body()}),
    "stale repair": ("POST /api/repair", {"body": repair_body(version=1)}),
}


def test_every_route_that_shows_jobs_is_tested() -> None:
    private = {
        name
        for module in (read_jobs, repair_jobs)
        for name, one in module.ROUTES.items()
        if one.groups
    }
    bulk = {"POST /api/bulk", "POST /api/bulk/continue"}  # in test_bulk_page.py
    bulk.add("POST /api/rejects/resend")  # in test_reject_resend.py
    reports = {"GET /api/rejects", "GET /api/audits", "GET /api/audit", "GET /api/overview"}
    tested = {route for route, _ in REQUESTS.values()} | bulk | reports
    assert private - tested == {
        *("GET /api/me", "GET /api/counts", "GET /api/gates", "POST /api/pause"),
        "GET /api/metrics",
    }


def test_reports_log_the_jobs_that_they_name(admin: Page, lines: Lines) -> None:
    ports: Any = admin.app.ports
    ports.stored_rejects.add("2026/11/16/1", json.dumps(charge_message()))
    until = START.replace(hour=0)
    audit = StoredAudit(since=until - timedelta(days=1), until=until, differences=1)
    ports.audit_reports.save_audit(audit, [{"record": "difference", "job_key": KEY}])

    rejects = json.loads(admin.call("GET /api/rejects", "[support]")["body"])["rejects"]
    report = json.loads(admin.call("GET /api/audit", "[support]", name=AUDIT)["body"])

    assert ([one["job_key"] for one in rejects], report["lines"][0]["job_key"]) == ([KEY], KEY)
    assert [line["job_key"] for line in lines.access] == [KEY, KEY]
    assert admin.call("GET /api/audit", "[support]", name="other")["statusCode"] == 404
    audits = json.loads(admin.call("GET /api/audits", "[support]")["body"])["audits"]
    assert [one["name"] for one in audits] == [AUDIT]


def test_overview_logs_the_newest_job_of_each_cause(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(many_reviews(30), monkeypatch)

    shown = json.loads(page.call("GET /api/overview", "[support]")["body"])["reviews"]

    assert [line["job_key"] for line in lines.access] == [one["newest"] for one in shown]
    assert len(shown) == 2


@pytest.mark.parametrize("what", REQUESTS)
def test_each_shown_job_is_logged_with_actor(what: str, admin: Page, lines: Lines) -> None:
    route, query = REQUESTS[what]

    response = admin.call(route, **query)

    assert KEY in response["body"]
    [line] = lines.access
    assert {name: line[name] for name in ("actor", "route", "status", "job_key")} == {
        "actor": ADA,
        "route": route,
        "status": response["statusCode"],
        "job_key": KEY,
    }
    assert line["customer_digest"] == DIGEST(CUSTOMER)


def test_list_logs_every_job_it_shows(monkeypatch: pytest.MonkeyPatch, lines: Lines) -> None:
    world = many_reviews(30)
    unreadable = JobKey("payment.charge:order_29")
    world.store.make_unreadable(unreadable)
    admin = Page(world, monkeypatch)

    listed = json.loads(admin.call("GET /api/jobs", status="needs_review", limit="20")["body"])

    shown = {one["job_key"] for one in (*listed["jobs"], *listed["unreadable"])}
    assert (len(shown), unreadable in shown) == (20, True)
    assert {line["job_key"] for line in lines.access} == shown


def test_export_logs_every_job_it_holds(monkeypatch: pytest.MonkeyPatch, lines: Lines) -> None:
    admin = Page(many_reviews(150), monkeypatch)
    monkeypatch.setattr(repair_jobs, "MAX_EXPORTED_JOBS", 120)

    response = admin.call("GET /api/export", status="needs_review")

    exported = {row.partition(",")[0] for row in response["body"].splitlines()[1:]}
    assert len(exported) == 120
    assert [*exported] == [*dict.fromkeys(exported)]
    assert {line["job_key"] for line in lines.access} == exported


@pytest.mark.parametrize(
    ("route", "query", "groups", "status"),
    [
        ("GET /api/job", {"key": f"payment.charge:{ADA}"}, "[support]", 404),
        ("GET /api/job", {"key": KEY}, "[other]", 403),
        ("GET /api/find", {"q": ADA}, "[support]", 200),
        ("GET /api/find", {"q": ADA}, "[other]", 403),
        ("GET /api/resolve", {"q": ADA}, "[operator]", 200),
        ("GET /api/resolve", {"q": ADA}, "[other]", 403),
        ("GET /api/lookup", {"key": f"payment.charge:{ADA}"}, "[operator]", 404),
        ("GET /api/lookup", {"key": KEY}, "[other]", 403),
        ("GET /api/jobs", {"type": ADA}, "[support]", 200),
        ("GET /api/jobs", {"status": ADA}, "[support]", 400),
        ("GET /api/export", {"status": "unknown"}, "[support]", 403),
        ("POST /api/repair", {"body": repair_body(f"payment.charge:{ADA}")}, "[operator]", 404),
        ("POST /api/repair", {"body": repair_body()}, "[support]", 403),
        ("POST /api/repair", {"body": ADA}, "[operator]", 400),
        ("GET /api/counts", {}, "[other]", 403),
    ],
)
def test_refused_or_empty_view_is_logged_without_typed_text(  # noqa: PLR0917  # a table's columns
    route: str, query: dict[str, str], groups: str, status: int, admin: Page, lines: Lines
) -> None:
    typed = query.get("q") or query.get("key") or _key(query.get("body", ""))

    assert admin.call(route, groups, **query)["statusCode"] == status

    [line] = lines.access
    assert (line["actor"], line["route"], line["status"]) == (ADA, route, status)
    assert "job_key" not in line
    assert line.get("text_digest") == (DIGEST(typed) if typed else None)
    # The actor is an address as well. Nothing else in the log is.
    assert lines.stream.getvalue().count(ADA) == 1


def _key(body: str) -> str:
    try:
        key: str = json.loads(body)["key"]
    except ValueError:
        return ""
    return key


def test_refused_repair_of_existing_job_is_logged_with_its_key(admin: Page, lines: Lines) -> None:
    """The refusal may quote what the provider says about the job."""
    response = admin.call("POST /api/repair", body=repair_body(repair="resubmit"))

    assert response["statusCode"] == 409
    [line] = lines.access
    assert (line["job_key"], line["customer_digest"]) == (KEY, DIGEST(CUSTOMER))


@pytest.mark.parametrize(
    ("reference", "status", "says"),
    [("pi_invented", 409, "contradiction"), ("pi_1", 200, "needs_second_operator")],
)
def test_contradicted_repair_and_request_are_logged(
    reference: str, status: int, says: str, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    world = world_with_review_job()
    world.second_operator_above = "eur:1"
    asked: Any = {"repair": "mark-finished", "reference": reference, "dry_run": False}
    body = repair_body(version=world.job(KEY).version, **asked)

    response = Page(world, monkeypatch).call("POST /api/repair", body=body)

    assert (response["statusCode"], bool(json.loads(response["body"])[says])) == (status, True)
    [line] = lines.access
    assert (line["job_key"], line["status"], line["actor"]) == (KEY, status, ADA)
    assert reference not in str(line)


@pytest.mark.parametrize("version", [VERSION, 1])
def test_reason_of_repair_is_not_logged(version: int, admin: Page, lines: Lines) -> None:
    """It may contain a customer, and an erasure does not reach the log."""
    admin.call("POST /api/repair", body=repair_body(version=version, reason="Anna Doe called"))

    assert [line["message"] for line in map(json.loads, lines.all)] == ["repair", ACCESS]
    assert "Anna" not in lines.stream.getvalue()


def test_search_text_and_customer_have_same_digest(admin: Page, lines: Lines) -> None:
    admin.call("GET /api/find", q=f" {CUSTOMER} ")

    [line] = lines.access
    assert line["text_digest"] == line["customer_digest"] == DIGEST(CUSTOMER)


def test_digest_needs_key() -> None:
    assert DIGEST(ADA) == TextDigester(lambda: "key of the access log").digest(ADA)
    assert TextDigester(lambda: "another key").digest(ADA) != DIGEST(ADA)
    assert len(DIGEST("\ud800")) == 64


@pytest.mark.parametrize("what", ["job", "search", "list", "export", "repair"])
def test_view_that_cannot_be_logged_is_not_shown(
    what: str, admin: Page, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    def fail() -> str:
        raise UnavailableError("Secrets Manager is not available now")

    monkeypatch.setattr(admin.app.text_digester.__class__, "digest", lambda *_: fail())
    route, query = REQUESTS[what]

    response = admin.call(route, **query)

    assert response["statusCode"] == 502
    assert KEY not in response["body"]
    [line] = lines.access
    assert (line["actor"], line["route"], line["status"]) == (ADA, route, 502)


def test_repair_that_cannot_be_logged_is_not_done() -> None:
    done: list[str] = []

    def repair(request: ApiRequest) -> ApiResponse:
        done.append(request.body)
        return ApiResponse.json({})

    def fail(_: str) -> str:
        raise UnavailableError("Secrets Manager is not available now")

    route = Route(repair, frozenset({"operator"}), lambda request: request.body)
    claims = {"username": ADA, "cognito:groups": "[operator]"}
    event = {
        "routeKey": "POST /x",
        "body": KEY,
        "requestContext": {"authorizer": {"jwt": {"claims": claims}}},
    }
    assert Api(routes={"POST /x": route}, digest=fail).handle(event)["statusCode"] == 502
    assert done == []


@pytest.mark.parametrize("route", ["GET /api/job", "POST /api/repair"])
def test_stack_trace_does_not_quote_typed_text(
    route: str, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    class Failing(InspectableStore):
        def get(self, key: JobKey) -> JobRow | None:
            raise UnavailableError(f"the row of {key} is not available now")

    admin = Page(InMemoryStack(store=Failing()), monkeypatch)
    typed = "payment.charge:someone@private.example"

    response = admin.call(route, key=typed, body=repair_body(typed))

    assert response["statusCode"] == 502
    assert "the row of (typed) is not available" in lines.stream.getvalue()
    assert typed not in lines.stream.getvalue()


def test_removed_operator_cannot_repair_with_old_token(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    world = many_reviews(1)
    [key] = world.store.jobs
    admin = Page(world, monkeypatch)
    body = repair_body(key, repair="mark-failed", version=1, dry_run=False)
    admin.directory.members[ADA] = {"support"}

    for route, query in (("POST /api/repair", {"body": body}), ("GET /api/export", {})):
        response = admin.call(route, "[operator]", **query)
        assert response["statusCode"] == 403
        assert "no longer in the group operator" in response["body"]

    assert world.job(key).status is Status.NEEDS_REVIEW
    assert [line["status"] for line in lines.access] == [403, 403]


def test_documented_queries_use_logged_fields(admin: Page, lines: Lines) -> None:
    for route, query in REQUESTS.values():
        admin.call(route, **query)
    logged = {name for line in lines.access for name in line}
    queries = [
        block.text
        for block in page("docs/privacy-and-security.md").blocks()
        if re.search(r"filter message = ", block.text)
    ]

    assert len(queries) == 3
    for one in queries:
        assert f'message = "{ACCESS}"' in one
        named = set(re.findall(r"\b([a-z_]+)(?= = | like |,|\n|$)", _insights(one)))
        used = named - {"fields", "filter", "sort"}
        assert {"actor", "route", "status"} & used
        assert used <= logged, used - logged


def _insights(query: str) -> str:
    """The query without its values and commands."""
    return re.sub(r'"[^"]*"|@\w+|\b(asc|desc|and|or)\b', "", query)
