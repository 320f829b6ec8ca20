"""The admin API of the deployed stack: access, repairs, and responses."""

import base64
import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from oncely.handlers.read_jobs import ROUTES as READ
from oncely.handlers.repair_jobs import ROUTES as REPAIR
from oncely.jobs.shipped import SHIPPED_JOBS
from tests.e2e.admin_api import (
    OPERATOR,
    PASSWORD,
    SUPPORT,
    UNGROUPED_USER,
    AdminApiClient,
    ApiReply,
    add_user,
    with_users,
)
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.scenarios import charge_message, count_charges, create_unknown_charge, put_order

ROUTES = {**READ, **REPAIR}
READ_ROUTES = sorted(key for key, route in ROUTES.items() if "support" in route.groups)
REPAIR_ROUTES = sorted(set(REPAIR) - set(READ_ROUTES))
# The status for an allowed user whose request has no parameters.
ALLOWED_STATUSES = {
    "GET /api/me": 200,
    "GET /api/find": 400,
    "GET /api/jobs": 200,
    "GET /api/job": 404,
    "GET /api/counts": 200,
    "GET /api/gates": 200,
    "GET /api/overview": 200,
    "GET /api/metrics": 200,
    "GET /api/rejects": 200,
    "GET /api/audits": 200,
    "GET /api/audit": 404,
    "GET /api/resolve": 400,
    "GET /api/lookup": 404,
    "POST /api/pause": 400,
    "POST /api/repair": 400,
    "POST /api/bulk": 400,
    "POST /api/bulk/continue": 400,
    "POST /api/rejects/resend": 400,
    "GET /api/export": 200,
}


@pytest.fixture(scope="module")
def admin_api(deployment: StackClient) -> AdminApiClient:
    return with_users(deployment)


@pytest.mark.parametrize("route", [*READ_ROUTES, *REPAIR_ROUTES])
def test_request_without_token_is_unauthorized(admin_api: AdminApiClient, route: str) -> None:
    assert admin_api.call(route).status == 401


@pytest.mark.parametrize("route", [*READ_ROUTES, *REPAIR_ROUTES])
def test_user_without_group_is_forbidden(admin_api: AdminApiClient, route: str) -> None:
    answer = admin_api.call(route, token=admin_api.token(UNGROUPED_USER))
    assert answer.status == 403
    assert "this requires the group" in answer.json["error"]


@pytest.mark.parametrize("route", READ_ROUTES)
@pytest.mark.parametrize("who", [SUPPORT, OPERATOR])
def test_support_agents_and_operators_can_read(
    admin_api: AdminApiClient, route: str, who: str
) -> None:
    assert admin_api.call(route, token=admin_api.token(who)).status == ALLOWED_STATUSES[route]


@pytest.mark.parametrize("route", REPAIR_ROUTES)
def test_only_operators_can_repair_and_export(admin_api: AdminApiClient, route: str) -> None:
    assert admin_api.call(route, token=admin_api.token(SUPPORT)).status == 403
    assert admin_api.call(route, token=admin_api.token(OPERATOR)).status == ALLOWED_STATUSES[route]


def statuses(admin_api: AdminApiClient, token: str) -> set[int]:
    return {admin_api.call(route, token=token).status for route in (*READ_ROUTES, *REPAIR_ROUTES)}


def tamper_token(token: str) -> str:
    header, claims, signature = token.split(".")
    payload = json.loads(base64.urlsafe_b64decode(claims + "=="))
    payload["cognito:groups"] = ["operator"]
    forged = base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=").decode()
    return f"{header}.{forged}.{signature}"


def unsign_token(token: str) -> str:
    _, claims, _ = token.split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{header}.{claims}."


@pytest.mark.parametrize(
    "forged",
    [tamper_token, unsign_token, lambda _: "x", lambda _: "a.b.c", lambda token: token[:-4]],
    ids=["tampered", "unsigned", "no token", "no JSON", "cut"],
)
def test_forged_token_is_unauthorized(
    admin_api: AdminApiClient, forged: Callable[[str], str]
) -> None:
    assert statuses(admin_api, forged(admin_api.token(SUPPORT))) == {401}


def test_operator_of_other_pool_is_unauthorized(admin_api: AdminApiClient) -> None:
    stack = admin_api.stack
    cognito = stack.client("cognito-idp")
    pool = cognito.create_user_pool(PoolName="another")["UserPool"]["Id"]
    cognito.create_group(UserPoolId=pool, GroupName="operator")
    add_user(stack, pool, OPERATOR, "operator")

    assert statuses(admin_api, password_token(admin_api, pool)) == {401}


def test_token_for_other_application_is_unauthorized(admin_api: AdminApiClient) -> None:
    token = password_token(admin_api, admin_api.stack.outputs["UserPoolId"])
    assert statuses(admin_api, token) == {401}


def password_token(admin_api: AdminApiClient, pool: str) -> str:
    cognito = admin_api.stack.client("cognito-idp")
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
def tokens_of_one_second(admin_api: AdminApiClient) -> Iterator[None]:
    cognito = admin_api.stack.client("cognito-idp")
    names = {
        "UserPoolId": admin_api.stack.outputs["UserPoolId"],
        "ClientId": admin_api.get("/config.json").json["client_id"],
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


def test_expired_token_is_unauthorized(admin_api: AdminApiClient) -> None:
    with tokens_of_one_second(admin_api):
        token = admin_api.sign_in(OPERATOR)["id_token"]
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["exp"] - claims["iat"] == 1

    wait_for(lambda: time.time() > claims["exp"], "its second is over")
    assert statuses(admin_api, token) == {401}


def test_me_returns_name_groups_and_job_types(admin_api: AdminApiClient) -> None:
    assert admin_api.get("/api/me", token=admin_api.token(SUPPORT)).json == {
        "name": SUPPORT,
        "groups": ["support"],
        "can_repair": False,
        "job_types": sorted(kind.job_type for kind in SHIPPED_JOBS),
    }


def test_page_is_served_with_strict_content_security_policy(admin_api: AdminApiClient) -> None:
    page = admin_api.get("/")

    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert f"connect-src 'self' {admin_api.stack.engine.url};" in policy
    assert page.headers["x-content-type-options"] == "nosniff"


def test_page_is_revalidated_and_its_files_are_cached(admin_api: AdminApiClient) -> None:
    page = admin_api.get("/")
    again = admin_api.get_if_changed("/", page)
    (script,) = re.findall(r'<script type="module" src="([^"]+)"', page.text)
    file = admin_api.get(script)

    assert (again.status, again.text, file.status) == (304, "", 200)
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
def test_no_other_file_is_served(admin_api: AdminApiClient, path: str) -> None:
    answer = admin_api.get(path)
    assert answer.status == 404
    assert "import" not in answer.text


def create_unresolved_charge(admin_api: AdminApiClient, name: str) -> tuple[str, int]:
    for number in range(5):
        key = create_unknown_charge(admin_api.stack, f"{name}-{number}")
        seen = admin_api.get("/api/job", token=admin_api.token(SUPPORT), key=key).json
        offered = {one["repair"]: one["allowed"] for one in seen["repairs"]}
        if seen["status"] == "unknown" and offered["lookup"]:
            return key, seen["version"]
    raise AssertionError("the reconciler was quicker five times")


def look_up_unresolved(admin_api: AdminApiClient, name: str) -> tuple[str, int, list[ApiReply]]:
    """Ask for a lookup with an old version, as a dry run, and for real."""
    key, version = create_unresolved_charge(admin_api, name)
    asked = {"key": key, "repair": "lookup", "reason": "the customer called"}
    variants = ({"version": version - 1}, {"version": version, "dry_run": True})
    token = admin_api.token(OPERATOR)
    responses = [
        admin_api.post("/api/repair", {**asked, **one}, token=token)
        for one in (*variants, {"version": version})
    ]
    return key, version, responses


def test_operator_resolves_unknown_charge_unless_page_is_stale(admin_api: AdminApiClient) -> None:
    attempts = (look_up_unresolved(admin_api, f"helped-{number}") for number in range(3))
    # The reconciler may resolve the job between two requests.
    key, version, (stale, dry, done) = next(one for one in attempts if one[-1][-1].status != 409)

    assert stale.status == 409
    assert "changed since you opened it" in stale.json["error"]
    assert stale.json["job"]["version"] == version
    assert (dry.status, dry.json["dry_run"]) == (200, True)
    assert dry.json["job"]["status"] == "finished"
    assert done.status == 200, done.text
    lookup = done.json["lookup"]
    assert (lookup["provider"], lookup["outcome"]) == ("Stripe", "succeeded")
    assert lookup["detail"].startswith("charged 49.00 EUR")
    assert done.json["job"]["status"] == "finished"
    assert f"{OPERATOR} (operator)" in {line["actor"] for line in done.json["job"]["timeline"]}
    order_id = key.removeprefix("payment.charge:order_")
    assert count_charges(admin_api.stack, order_id) == 1
    assert admin_api.stack.order(order_id)["status"] == "paid"


def test_operator_resubmits_declined_order(admin_api: AdminApiClient) -> None:
    stack, token = admin_api.stack, admin_api.token(OPERATOR)
    put_order(stack, "declined-once", payment_method="pm_card_chargeDeclined")
    stack.send("PaymentsQueueUrl", charge_message("declined-once"))
    key = "payment.charge:order_declined-once"
    stack.wait_for_job(key, "failed")
    put_order(stack, "declined-once", status="payment_failed")
    version = wait_for(
        lambda: (
            (seen := admin_api.get("/api/job", token=token, key=key).json)["expires_at"]
            and seen["version"]
        ),
        "its end is recorded",
    )
    asked = {"key": key, "repair": "resubmit", "version": version, "reason": "a new card"}

    done = admin_api.post("/api/repair", asked, token=token)

    assert done.status == 200, done.text
    stack.wait_for_job(f"{key}:2", "finished")
    assert count_charges(stack, "declined-once") == 1
    found = admin_api.get("/api/find", token=token, q="declined-once").json["jobs"]
    assert {one["job_key"] for one in found} >= {key, f"{key}:2"}


HOSTILE = [
    "'; DROP TABLE jobs; --",
    '"quoted" & <script>alert(1)</script>',
    "日本語 ☃ é",
    "=HYPERLINK(1)",
    "o" * 100,
]


def test_hostile_names_are_found_shown_and_exported(admin_api: AdminApiClient) -> None:
    stack, token = admin_api.stack, admin_api.token(OPERATOR)
    for order_id in HOSTILE:
        customer = f"<img src=x onerror=alert(1)> {order_id}"
        declined = "pm_card_chargeDeclined"
        put_order(stack, order_id, customer_id=customer, receipt_email="", payment_method=declined)
        stack.send("PaymentsQueueUrl", charge_message(order_id))
    for order_id in HOSTILE:
        found = wait_for(
            lambda one=order_id: (  # type: ignore[misc]  # bound now
                (jobs := admin_api.get("/api/find", token=token, q=one).json["jobs"])
                and jobs[-1]["status"] == "failed"
                and jobs
            ),
            f"{order_id} is found",
        )
        assert found[-1]["subject"] == order_id
        customer = f"<img src=x onerror=alert(1)> {order_id}"
        assert found[-1]["customer_id"] == customer
        by_customer = admin_api.get("/api/find", token=token, q=customer).json["jobs"]
        assert found[-1]["job_key"] in {one["job_key"] for one in by_customer}
        shown = admin_api.get("/api/job", token=token, key=found[-1]["job_key"])
        assert shown.json["message"]["order_id"] == order_id
        assert shown.headers["content-type"].startswith("application/json")

    exported = admin_api.get("/api/export", token=token, status="failed")

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
    admin_api: AdminApiClient, path: str, query: dict[str, str]
) -> None:
    answer = admin_api.get(path, token=admin_api.token(SUPPORT), **query)
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
        json.dumps({"key": "k", "repair": "lookup", "version": 1, "reason": " "}),
        json.dumps({"key": "k", "repair": "lookup", "version": 1, "reason": "r", "actor": "root"}),
    ],
)
def test_invalid_repair_gets_error_message(admin_api: AdminApiClient, body: str) -> None:
    answer = admin_api.post("/api/repair", body, token=admin_api.token(OPERATOR))
    assert answer.status == 400
    assert len(answer.json["error"]) > 10


def test_repair_of_missing_job_is_not_found(admin_api: AdminApiClient) -> None:
    asked = {"key": "payment.charge:order_none", "repair": "lookup", "version": 1, "reason": "x"}
    assert admin_api.post("/api/repair", asked, token=admin_api.token(OPERATOR)).status == 404
