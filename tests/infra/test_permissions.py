"""Least privilege: one role per function, with named actions on named resources."""

from fnmatch import fnmatchcase

import pytest

from oncely.contracts.settings import pascal_case
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely_cdk.encryption_keys import KMS_ACTIONS
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
    # Of `oncely doctor`. CloudWatch lists alarms for the whole account.
    *("lambda:GetAccountSettings", "cloudwatch:DescribeAlarms"),
    # Of the admin page. It reads numbers, and supports neither resources nor conditions.
    "cloudwatch:GetMetricData",
}
# Actions of services with encrypted data that read or write none of it.
NO_DATA = {
    *("dynamodb:DescribeContinuousBackups", "dynamodb:DescribeStream", "dynamodb:DescribeTable"),
    *("dynamodb:DescribeTimeToLive", "dynamodb:GetShardIterator", "dynamodb:ListStreams"),
    *("s3:DeleteObjectVersion", "s3:GetBucketVersioning", "s3:ListBucket", "s3:ListBucketVersions"),
    *("secretsmanager:DescribeSecret", "sqs:ChangeMessageVisibility", "sqs:DeleteMessage"),
    "sqs:GetQueueAttributes",
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


def test_every_action_on_data_may_use_its_encryption_key(prod: Assembly) -> None:
    encrypted = {action.partition(":")[0] for action in KMS_ACTIONS}
    found = {one.action for one in permissions(prod)}
    on_data = {one for one in found if one.partition(":")[0] in encrypted} - NO_DATA

    assert on_data - set(KMS_ACTIONS) == set()
    assert not NO_DATA & set(KMS_ACTIONS)


def test_no_role_has_managed_or_inline_policy(prod: Assembly) -> None:
    assert inline_policies(prod) == {}


def test_secret_is_readable_only_where_jobs_need_it(prod: Assembly) -> None:
    readers = {
        (one.role, one.resource)
        for one in permissions(prod)
        if one.action == "secretsmanager:GetSecretValue"
    }
    of_access_log = {one for one in readers if one[1] == "AdminPage/AccessLogKey"}

    assert {role for role, _ in of_access_log} == {"AdminPage/Read", "AdminPage/Repair"}
    readers -= of_access_log
    # The audit reads the providers that take money.
    audit = ("PaymentAudit/Audit", "ProviderSecrets/Stripe")
    assert audit in readers
    readers.remove(audit)

    assert readers >= {
        ("PaymentsWorker/Worker", "ProviderSecrets/Stripe"),
        ("SyncWorker/Worker", "ProviderSecrets/Hubspot"),
    }
    assert readers == {
        (role, f"ProviderSecrets/{pascal_case(name)}")
        for kind in SHIPPED_JOBS
        # A stage without the settings of a provider has no secret of it.
        for name in kind.secret_names(
            plugin
            for plugin in kind.all_providers()
            if plugin.is_configured(plugin.read_settings({}))
        )
        for role in (
            *("Reconciler/Resolve", "AdminPage/Repair", "Policies/Operator"),
            f"{pascal_case(kind.queue)}Worker/Worker",
        )
    }


def test_support_reader_can_change_nothing(prod: Assembly) -> None:
    allowed = {one.action for one in permissions(prod) if one.role == "AdminPage/Read"}
    own_traces = {name for name in allowed if name.startswith(("logs:", "xray:"))}

    assert allowed - own_traces == {
        *("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan"),
        *("s3:GetObject", "s3:ListBucket", "sqs:GetQueueAttributes", "cloudwatch:GetMetricData"),
        "secretsmanager:GetSecretValue",
    }


def test_only_repairs_ask_for_current_groups(prod: Assembly) -> None:
    asking = {one for one in permissions(prod) if one.action.startswith("cognito-idp:")}

    assert {(one.role, one.action, one.resource) for one in asking} == {
        ("AdminPage/Repair", f"cognito-idp:{name}", "AdminPage/Users/Pool")
        for name in ("AdminGetUser", "AdminListGroupsForUser")
    }


def test_no_function_may_delete_rows_or_objects(prod: Assembly) -> None:
    granted = permissions(prod)
    eraser = "Policies/Eraser"
    deleting = {one.action for one in granted if "Delete" in one.action and one.role != eraser}

    assert deleting == {"sqs:DeleteMessage", "logs:DeleteLogDelivery"}


def test_find_and_finish_may_write_only_sweep_leases(prod: Assembly) -> None:
    """MiniStack does not evaluate `dynamodb:LeadingKeys`, so the policy is checked here."""
    roles = {"Reconciler/Find", "Reconciler/Finish"}
    writes = {
        (one.role, one.action, one.leading_keys)
        for one in permissions(prod)
        if one.role in roles
        and one.resource == "Tables/Jobs"
        and not one.action.startswith(("dynamodb:GetItem", "dynamodb:Describe"))
    }

    assert writes == {(role, "dynamodb:UpdateItem", ("sweep:*",)) for role in roles}


IDENTITY = "arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:identity"
CONFIGURATION_SET = "arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:configuration-set"


@pytest.mark.parametrize(
    "resources",
    [
        [f"{IDENTITY}/receipts@example.com"],
        [f"{IDENTITY}/example.com"],
        # In the SES sandbox the recipient's identity is authorized as well.
        [f"{IDENTITY}/example.com", f"{IDENTITY}/seven@customer.example"],
        # The request names the stack's configuration set.
        [f"{IDENTITY}/example.com", f"{CONFIGURATION_SET}/SesResources/ConfigurationSet"],
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
