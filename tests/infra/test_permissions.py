"""Least privilege: one role per function, with named actions on named resources."""

from fnmatch import fnmatchcase

import pytest

from oncely.jobs import CONTRACTS
from oncely.settings import pascal_case
from tests.infra.assembly import SHIPPED_FUNCTIONS, Assembly
from tests.infra.policies import inline_policies, permissions
from tests.infra.snapshots import assert_matches_snapshot

# Actions without resource-level permissions.
NO_RESOURCES = {
    *("dynamodb:ListStreams", "xray:GetSamplingRules", "xray:GetSamplingTargets"),
    *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
    # How Step Functions sends its logs.
    *("logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeLogGroups"),
    *("logs:DescribeResourcePolicies", "logs:GetLogDelivery", "logs:ListLogDeliveries"),
    *("logs:PutResourcePolicy", "logs:UpdateLogDelivery"),
}


def test_permissions_match_snapshot(prod: Assembly) -> None:
    lines = [str(permission) for permission in sorted(permissions(prod))]

    assert_matches_snapshot("permissions.txt", "\n".join(lines) + "\n")


def test_every_function_has_its_own_role(prod: Assembly) -> None:
    roles = [function.properties["Role"]["Fn::GetAtt"][0] for function in prod.functions.values()]

    assert len(set(roles)) == len(prod.functions) >= SHIPPED_FUNCTIONS


def test_no_action_or_resource_is_wildcard(prod: Assembly) -> None:
    for permission in permissions(prod):
        assert "*" not in permission.action
        if permission.resource == "*":
            assert permission.action in NO_RESOURCES


def test_no_role_has_managed_or_inline_policy(prod: Assembly) -> None:
    assert inline_policies(prod) == {}


def test_secret_is_readable_only_where_jobs_need_it(prod: Assembly) -> None:
    readers = {
        (one.role, one.resource)
        for one in permissions(prod)
        if one.action == "secretsmanager:GetSecretValue"
    }

    assert readers >= {
        ("PaymentsWorker/Worker", "ProviderSecrets/Stripe"),
        ("SyncWorker/Worker", "ProviderSecrets/Hubspot"),
    }
    assert readers == {
        (role, f"ProviderSecrets/{pascal_case(name)}")
        for kind in CONTRACTS
        for name in kind.resources.secret_names
        for role in (
            *("Reconciler/Resolve", "AdminPage/Repair"),
            f"{pascal_case(kind.resources.queue)}Worker/Worker",
        )
    }


def test_support_reader_can_change_nothing(prod: Assembly) -> None:
    allowed = {one.action for one in permissions(prod) if one.role == "AdminPage/Read"}
    own_traces = {name for name in allowed if name.startswith(("logs:", "xray:"))}

    assert allowed - own_traces == {
        *("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"),
        *("s3:GetObject", "s3:ListBucket"),
    }


def test_no_role_may_delete_rows_or_objects(prod: Assembly) -> None:
    deleting = {one.action for one in permissions(prod) if "Delete" in one.action}

    assert deleting == {"sqs:DeleteMessage", "logs:DeleteLogDelivery"}


def test_find_and_finish_may_write_only_sweep_leases(prod: Assembly) -> None:
    """MiniStack does not evaluate `dynamodb:LeadingKeys`, so the policy is checked here."""
    roles = {"Reconciler/Find", "Reconciler/Finish"}
    writes = {
        (one.role, one.action, one.condition)
        for one in permissions(prod)
        if one.role in roles
        and one.resource == "Tables/Jobs"
        and not one.action.startswith(("dynamodb:GetItem", "dynamodb:Describe"))
    }

    like = "dynamodb:LeadingKeys like sweep:*"
    assert writes == {(role, "dynamodb:UpdateItem", like) for role in roles}


IDENTITY = "arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:identity"
CONFIGURATION_SET = "arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:configuration-set"


@pytest.mark.parametrize(
    "resources",
    [
        [f"{IDENTITY}/receipts@example.com"],
        [f"{IDENTITY}/example.com"],
        # In the SES sandbox the recipient's identity is authorized as well.
        [f"{IDENTITY}/example.com", f"{IDENTITY}/seven@customer.example"],
        # The identity has a default configuration set.
        [f"{IDENTITY}/example.com", f"{CONFIGURATION_SET}/receipts"],
    ],
)
def test_sender_may_send_with_every_resource_ses_authorizes(
    prod: Assembly, resources: list[str]
) -> None:
    assert all(may_send(prod, one, from_address="receipts@example.com") for one in resources)


@pytest.mark.parametrize("address", ["ceo@example.com", "receipts@example.com.evil.example", ""])
def test_mail_from_another_address_is_denied(prod: Assembly, address: str) -> None:
    assert not may_send(prod, f"{IDENTITY}/example.com", from_address=address)


def test_only_mail_worker_may_send_mail(prod: Assembly) -> None:
    senders = {one.role for one in permissions(prod) if one.action == "ses:SendEmail"}

    assert senders == {"MailWorker/Worker"}


def may_send(assembly: Assembly, resource: str, *, from_address: str) -> bool:
    """Evaluate the policy here: MiniStack does not evaluate `ses:FromAddress`."""
    return any(
        fnmatchcase(resource, permission.resource.replace("[", "[[]"))
        and permission.condition in ("", f"ses:FromAddress = {from_address}")
        for permission in permissions(assembly)
        if permission.action == "ses:SendEmail"
    )
