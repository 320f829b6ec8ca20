"""Least privilege: one role for each function, named actions on named resources, all in a table."""

from oncely.contracts import CONTRACTS
from oncely.settings import camel
from tests.infra.assembly import SHIPPED_FUNCTIONS, Assembly
from tests.infra.policies import inline_policies, permissions
from tests.infra.snapshots import matches

# Actions on which IAM knows no resources to name.
NO_RESOURCES = {
    "dynamodb:ListStreams",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
    # How Step Functions sends its logs.
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
}


def test_who_may_do_what_is_what_the_table_says(prod: Assembly) -> None:
    lines = [str(permission) for permission in sorted(permissions(prod))]

    matches("permissions.txt", "\n".join(lines) + "\n")


def test_every_function_has_a_role_of_its_own(prod: Assembly) -> None:
    roles = [function.properties["Role"]["Fn::GetAtt"][0] for function in prod.functions.values()]

    assert len(set(roles)) == len(prod.functions) >= SHIPPED_FUNCTIONS


def test_no_action_is_a_pattern_and_no_resource_is_everything(prod: Assembly) -> None:
    for permission in permissions(prod):
        assert "*" not in permission.action
        if permission.resource == "*":
            assert permission.action in NO_RESOURCES


def test_no_role_has_a_managed_policy_or_one_written_into_it(prod: Assembly) -> None:
    assert inline_policies(prod) == {}


def test_only_functions_whose_jobs_need_a_secret_may_read_it(prod: Assembly) -> None:
    readers = {
        (permission.role, permission.resource)
        for permission in permissions(prod)
        if permission.action == "secretsmanager:GetSecretValue"
    }

    assert readers >= {
        ("PaymentsWorker/Worker", "ProviderKeys/Stripe"),
        ("SyncWorker/Worker", "ProviderKeys/Hubspot"),
    }
    assert readers == {
        (role, f"ProviderKeys/{camel(name)}")
        for kind in CONTRACTS
        for name in kind.needs.secrets
        for role in (
            *("Reconciler/Resolve", "Support/Repair"),
            f"{camel(kind.needs.queue)}Worker/Worker",
        )
    }


def test_the_function_that_reads_for_people_can_change_nothing(prod: Assembly) -> None:
    allowed = {one.action for one in permissions(prod) if one.role == "Support/Read"}
    own_traces = {name for name in allowed if name.startswith(("logs:", "xray:"))}

    assert allowed - own_traces == {
        *("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"),
        *("s3:GetObject", "s3:ListBucket"),
    }


def test_nobody_may_delete_a_row_or_an_object(prod: Assembly) -> None:
    deleting = {
        permission.action for permission in permissions(prod) if "Delete" in permission.action
    }

    assert deleting == {"sqs:DeleteMessage", "logs:DeleteLogDelivery"}


def test_mail_is_sent_from_the_senders_own_identity_only(prod: Assembly) -> None:
    senders = {
        permission.resource.rpartition("/")[2]
        for permission in permissions(prod)
        if permission.action == "ses:SendEmail"
    }

    assert senders == {"receipts@example.com", "example.com"}
