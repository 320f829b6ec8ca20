"""The support view through the deployed stack: who is let in, who may repair, and what is told."""

import base64
import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from infra.local.sandbox import FaultKind
from oncely.contracts import CONTRACTS
from read_jobs.handler import ROUTES as READ
from repair_jobs.handler import ROUTES as REPAIR
from tests.e2e.deployment import Deployment, eventually
from tests.e2e.people import (
    NOBODY,
    OPERATOR,
    PASSWORD,
    SUPPORT,
    SupportView,
    add_person,
    staffed,
)
from tests.e2e.scenarios import charge, charges, order

pytestmark = pytest.mark.timeout(600)

READING = sorted(key for key, route in READ.items() if route.groups)
REPAIRING = sorted(REPAIR)
# Let in, whatever it is then told: nothing was asked for.
LET_IN = {
    "GET /api/me": 200,
    "GET /api/find": 400,
    "GET /api/jobs": 200,
    "GET /api/job": 404,
    "GET /api/counts": 200,
    "POST /api/repair": 400,
    "GET /api/export": 200,
}


@pytest.fixture(scope="module")
def view(deployment: Deployment) -> SupportView:
    return staffed(deployment)


@pytest.mark.parametrize("route", [*READING, *REPAIRING])
def test_request_without_token_is_unauthorized(view: SupportView, route: str) -> None:
    assert view.call(route).status == 401


@pytest.mark.parametrize("route", [*READING, *REPAIRING])
def test_user_without_group_is_forbidden(view: SupportView, route: str) -> None:
    answer = view.call(route, token=view.token(NOBODY))

    assert answer.status == 403
    assert "this needs the group" in answer.json["error"]


@pytest.mark.parametrize("route", READING)
@pytest.mark.parametrize("who", [SUPPORT, OPERATOR])
def test_support_agents_and_operators_can_read(view: SupportView, route: str, who: str) -> None:
    assert view.call(route, token=view.token(who)).status == LET_IN[route]


@pytest.mark.parametrize("route", REPAIRING)
def test_only_operators_can_repair_and_export(view: SupportView, route: str) -> None:
    assert view.call(route, token=view.token(SUPPORT)).status == 403
    assert view.call(route, token=view.token(OPERATOR)).status == LET_IN[route]


def tampered(token: str) -> str:
    """The same token, for an operator."""
    header, claims, signature = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    said["cognito:groups"] = ["operator"]
    forged = base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()
    return f"{header}.{forged}.{signature}"


def unsigned(token: str) -> str:
    _, claims, _ = token.split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{header}.{claims}."


@pytest.mark.parametrize(
    "forged",
    [tampered, unsigned, lambda _: "x", lambda _: "a.b.c", lambda token: token[:-4]],
    ids=["tampered", "unsigned", "no token", "no JSON", "cut"],
)
def test_forged_token_is_unauthorized(view: SupportView, forged: Callable[[str], str]) -> None:
    wrong = forged(view.token(SUPPORT))

    assert {view.call(route, token=wrong).status for route in (*READING, *REPAIRING)} == {401}


def test_operator_of_other_pool_is_unauthorized(view: SupportView) -> None:
    stack = view.stack
    cognito = stack.client("cognito-idp")
    pool = cognito.create_user_pool(PoolName="another")["UserPool"]["Id"]
    cognito.create_group(UserPoolId=pool, GroupName="operator")
    add_person(stack, pool, OPERATOR, "operator")
    token = password_token(view, pool)

    assert {view.call(route, token=token).status for route in (*READING, *REPAIRING)} == {401}


def test_token_for_other_application_is_unauthorized(view: SupportView) -> None:
    token = password_token(view, view.stack.outputs["UserPoolId"])

    assert {view.call(route, token=token).status for route in (*READING, *REPAIRING)} == {401}


def password_token(view: SupportView, pool: str) -> str:
    """A true token of some pool, for a client that is not the page."""
    cognito = view.stack.client("cognito-idp")
    client = cognito.create_user_pool_client(
        UserPoolId=pool, ClientName="other", ExplicitAuthFlows=["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
    )["UserPoolClient"]["ClientId"]
    given = cognito.admin_initiate_auth(
        UserPoolId=pool,
        ClientId=client,
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": OPERATOR, "PASSWORD": PASSWORD},
    )
    token: str = given["AuthenticationResult"]["IdToken"]
    return token


@contextmanager
def tokens_of_one_second(view: SupportView) -> Iterator[None]:
    cognito = view.stack.client("cognito-idp")
    names = {
        "UserPoolId": view.stack.outputs["UserPoolId"],
        "ClientId": view.get("/config.json").json["client_id"],
    }
    described = cognito.describe_user_pool_client(**names)["UserPoolClient"]
    kept = {
        name: described[name]
        for name in (
            *("CallbackURLs", "LogoutURLs", "AllowedOAuthFlows", "AllowedOAuthScopes"),
            *("AllowedOAuthFlowsUserPoolClient", "SupportedIdentityProviders"),
            *("ExplicitAuthFlows", "IdTokenValidity", "TokenValidityUnits"),
        )
    }
    units = {**kept["TokenValidityUnits"], "IdToken": "seconds"}
    cognito.update_user_pool_client(
        **names, **{**kept, "IdTokenValidity": 1, "TokenValidityUnits": units}
    )
    try:
        yield
    finally:
        cognito.update_user_pool_client(**names, **kept)


def test_expired_token_is_unauthorized(view: SupportView) -> None:
    with tokens_of_one_second(view):
        token = view.sign_in(OPERATOR)["id_token"]
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["exp"] - claims["iat"] == 1

    eventually(lambda: True if time.time() > claims["exp"] else None, "its second is over")

    assert {view.call(route, token=token).status for route in (*READING, *REPAIRING)} == {401}


def test_me_returns_name_groups_and_job_types(view: SupportView) -> None:
    assert view.get("/api/me", token=view.token(SUPPORT)).json == {
        "name": SUPPORT,
        "groups": ["support"],
        "may_repair": False,
        "job_types": sorted(kind.job_type for kind in CONTRACTS),
    }


def test_page_is_served_with_strict_content_security_policy(view: SupportView) -> None:
    page = view.get("/")

    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert f"connect-src 'self' {view.stack.engine.url};" in policy
    assert page.headers["x-content-type-options"] == "nosniff"


def test_page_is_revalidated_and_its_files_are_cached(view: SupportView) -> None:
    page = view.get("/")
    again = view.get_again("/", page)
    (script,) = re.findall(r'<script type="module" src="([^"]+)"', page.text)
    file = view.get(script)

    assert (again.status, again.text) == (304, "")
    assert file.status == 200
    assert file.headers["content-type"] == "text/javascript; charset=utf-8"
    assert file.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path",
    [
        "/handler.py",
        "/..%2Fhandler.py",
        "/%2e%2e/handler.py",
        "/nothing",
        "/page/x/admin.js",
        "/page/x/..%2F..%2Fhandler.py",
    ],
)
def test_no_other_file_is_served(view: SupportView, path: str) -> None:
    answer = view.get(path)

    assert answer.status == 404
    assert "import" not in answer.text


def unknown_charge(view: SupportView, order_id: str) -> str:
    """Stripe charges, its answer is lost, and nobody can ask for a while."""
    stack, key = view.stack, f"payment.charge:order_{order_id}"
    order(stack, order_id)
    faults = stack.sandbox.faults
    confirm = "/v1/payment_intents/*/confirm"
    faults.add(FaultKind.ACCEPT_THEN_DROP, path=confirm, key_contains=key)
    faults.add(FaultKind.OUTAGE, method="GET", path="/v1/payment_intents/*")
    stack.send("PaymentsQueueUrl", charge(order_id))
    stack.job_when(key, "unknown", "finished")
    return key


def asked_first(view: SupportView) -> tuple[str, int]:
    """An unknown charge that no sweep was quicker to ask about, and its version."""
    for number in range(5):
        key = unknown_charge(view, f"helped-{number}")
        seen = view.get("/api/job", token=view.token(SUPPORT), key=key).json
        offered = {one["repair"]: one["allowed"] for one in seen["repairs"]}
        if seen["status"] == "unknown" and offered["ask"]:
            return key, seen["version"]
    raise AssertionError("the reconciler was quicker five times")


def test_operator_resolves_unknown_charge_unless_page_is_stale(
    view: SupportView,
) -> None:
    token = view.token(OPERATOR)
    key, version = asked_first(view)
    asked = {"key": key, "repair": "ask", "reason": "the customer called"}

    stale = view.post("/api/repair", {**asked, "version": version - 1}, token=token)
    dry = view.post("/api/repair", {**asked, "version": version, "dry_run": True}, token=token)
    done = view.post("/api/repair", {**asked, "version": version}, token=token)

    assert stale.status == 409
    assert stale.json["error"] == "changed, reload"
    assert stale.json["job"]["version"] == version
    assert (dry.status, dry.json["dry_run"]) == (200, True)
    assert dry.json["job"]["status"] == "finished"
    assert done.status == 200, done.text
    assert done.json["said"].startswith("Stripe says: succeeded, charged 49.00 EUR")
    assert done.json["job"]["status"] == "finished"
    assert f"{OPERATOR} (person)" in {line["who"] for line in done.json["job"]["timeline"]}
    order_id = key.removeprefix("payment.charge:order_")
    assert charges(view.stack, order_id) == 1
    row = view.stack.get("OrdersTableName", order_id=order_id)
    assert row is not None
    assert row["status"] == "paid"


def test_operator_resubmits_declined_order(view: SupportView) -> None:
    stack, token = view.stack, view.token(OPERATOR)
    order(stack, "declined-once", payment_method="pm_card_chargeDeclined")
    stack.send("PaymentsQueueUrl", charge("declined-once"))
    key = "payment.charge:order_declined-once"
    stack.job_when(key, "failed")
    order(stack, "declined-once", status="payment_failed")
    version = eventually(
        lambda: (
            seen["version"]
            if (seen := view.get("/api/job", token=token, key=key).json)["expires_at"]
            else None
        ),
        "its end is recorded",
    )
    asked = {"key": key, "repair": "again", "version": version, "reason": "a new card"}

    done = view.post("/api/repair", asked, token=token)

    assert done.status == 200, done.text
    stack.job_when(f"{key}:2", "finished")
    assert charges(stack, "declined-once") == 1
    found = view.get("/api/find", token=token, q="declined-once").json["jobs"]
    assert {one["job_key"] for one in found} >= {key, f"{key}:2"}


HOSTILE = [
    "'; DROP TABLE jobs; --",
    '"quoted" & <script>alert(1)</script>',
    "日本語 ☃ é",
    "=HYPERLINK(1)",
    "o" * 100,
]


def test_hostile_names_are_found_shown_and_exported(view: SupportView) -> None:
    stack, token = view.stack, view.token(OPERATOR)
    for order_id in HOSTILE:
        customer = f"<img src=x onerror=alert(1)> {order_id}"
        declined = "pm_card_chargeDeclined"
        order(stack, order_id, customer_id=customer, receipt_email="", payment_method=declined)
        stack.send("PaymentsQueueUrl", charge(order_id))
    for order_id in HOSTILE:
        found = eventually(
            lambda one=order_id: (  # type: ignore[misc]  # bound now
                jobs
                if (jobs := view.get("/api/find", token=token, q=one).json["jobs"])
                and jobs[-1]["status"] == "failed"
                else None
            ),
            f"{order_id} is found",
        )
        assert found[-1]["subject"] == order_id
        customer = f"<img src=x onerror=alert(1)> {order_id}"
        assert found[-1]["customer_id"] == customer
        by_customer = view.get("/api/find", token=token, q=customer).json["jobs"]
        assert found[-1]["job_key"] in {one["job_key"] for one in by_customer}
        shown = view.get("/api/job", token=token, key=found[-1]["job_key"])
        assert shown.json["message"]["order_id"] == order_id
        assert shown.headers["content-type"].startswith("application/json")

    exported = view.get("/api/export", token=token, status="failed")

    assert exported.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(exported.text)))
    subjects = {row["subject"] for row in rows}
    assert {"'=HYPERLINK(1)", *(name for name in HOSTILE if name[0] != "=")} <= subjects
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "@"))]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/find", {"q": "x" * 4000}),
        ("/api/jobs", {"status": "' OR 1=1"}),
        ("/api/jobs", {"cursor": "%00", "limit": "9" * 50}),
        ("/api/jobs", {"from": "yesterday"}),
        ("/api/job", {"key": "../../etc/passwd"}),
        ("/api/job", {"key": "payment.charge:" + "x" * 2000}),
    ],
)
def test_invalid_query_gets_error_message_without_trace(
    view: SupportView, path: str, query: dict[str, str]
) -> None:
    answer = view.get(path, token=view.token(SUPPORT), **query)

    assert answer.status in {200, 400, 404}
    assert "Traceback" not in answer.text
    assert answer.status == 200 or len(answer.json["error"]) > 10


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no JSON",
        "[]",
        '{"key": 1}',
        json.dumps({"key": "k", "repair": "x", "version": 1, "reason": "r"}),
        json.dumps({"key": "k", "repair": "ask", "version": 1, "reason": " "}),
        json.dumps({"key": "k", "repair": "ask", "version": 1, "reason": "r", "actor": "root"}),
    ],
)
def test_invalid_repair_gets_error_message(view: SupportView, body: str) -> None:
    answer = view.post("/api/repair", body, token=view.token(OPERATOR))

    assert answer.status == 400
    assert len(answer.json["error"]) > 10


def test_repair_of_missing_job_is_not_found(view: SupportView) -> None:
    asked = {"key": "payment.charge:order_none", "repair": "ask", "version": 1, "reason": "x"}

    assert view.post("/api/repair", asked, token=view.token(OPERATOR)).status == 404
