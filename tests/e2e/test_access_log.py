"""The access log of the deployed stack, and what an operator can do after the removal."""

import hmac
import json
from typing import Any

import pytest

from tests.e2e.admin_api import AdminApiClient, add_user, with_users
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.scenarios import create_unknown_charge

READER = "log.reader@example.com"
LEAVER = "log.leaver@example.com"


@pytest.fixture(scope="module")
def admin_api(deployment: StackClient) -> AdminApiClient:
    add_user(deployment, deployment.outputs["UserPoolId"], READER, "support")
    return with_users(deployment)


def access_lines(stack: StackClient, actor: str) -> list[dict[str, Any]]:
    logs = stack.client("logs")
    groups = logs.describe_log_groups()["logGroups"]
    lines = [
        json.loads(event["message"])
        for group in groups
        if "AdminPage" in group["logGroupName"]
        for page in logs.get_paginator("filter_log_events").paginate(
            logGroupName=group["logGroupName"]
        )
        for event in page["events"]
        if event["message"].startswith("{")
    ]
    return [one for one in lines if (one.get("message"), one.get("actor")) == ("access", actor)]


def digest(stack: StackClient, text: str) -> str:
    secret = stack.client("secretsmanager").get_secret_value(
        SecretId=stack.outputs["AccessLogSecretArn"]
    )
    key: str = secret["SecretString"]
    assert len(key) == 64
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()


def test_views_and_searches_are_logged(admin_api: AdminApiClient, deployment: StackClient) -> None:
    key = create_unknown_charge(deployment, "viewed")
    token = admin_api.token(READER)
    typed = "someone@private.example"
    assert admin_api.get("/api/job", token=token, key=key).status == 200
    assert admin_api.get("/api/job", token=token, key=f"payment.charge:{typed}").status == 404
    assert admin_api.get("/api/find", token=token, q=typed).status == 200
    assert admin_api.get("/api/export", token=token).status == 403

    lines = wait_for(
        lambda: len(found := access_lines(deployment, READER)) == 4 and found, "four lines"
    )

    assert [(one["route"], one["status"], one.get("job_key")) for one in lines] == [
        ("GET /api/job", 200, key),
        ("GET /api/job", 404, None),
        ("GET /api/find", 200, None),
        ("GET /api/export", 403, None),
    ]
    assert lines[1]["text_digest"] == digest(deployment, f"payment.charge:{typed}")
    assert lines[2]["text_digest"] == digest(deployment, typed)
    assert typed not in json.dumps(lines)


@pytest.mark.parametrize("how", ["admin_remove_user_from_group", "admin_disable_user"])
def test_removed_operator_cannot_repair_with_valid_token(
    how: str, admin_api: AdminApiClient, deployment: StackClient
) -> None:
    pool, name = deployment.outputs["UserPoolId"], f"{how}.{LEAVER}"
    add_user(deployment, pool, name, "operator")
    token = admin_api.token(name)
    assert admin_api.get("/api/export", token=token).status == 200
    key = create_unknown_charge(deployment, how.replace("_", "-"))
    job = admin_api.get("/api/job", token=token, key=key).json
    asked = {"key": key, "repair": "mark-failed", "version": job["version"], "reason": "a grudge"}

    group = {"GroupName": "operator"} if "group" in how else {}
    getattr(deployment.client("cognito-idp"), how)(UserPoolId=pool, Username=name, **group)

    refused = admin_api.post("/api/repair", asked, token=token)
    assert (refused.status, "no longer" in refused.text) == (403, True)
    assert admin_api.get("/api/export", token=token).status == 403
    # The token itself is still valid, and reads until it expires.
    assert admin_api.get("/api/job", token=token, key=key).json["version"] >= job["version"]
    assert deployment.job(key)["status"] != "failed"  # type: ignore[index]  # there is one
