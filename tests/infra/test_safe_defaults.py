"""Safe defaults: what is on without a setting, and what costs extra is off."""

import json
from typing import Any

import pytest

from oncely.contracts.message import MAX_MESSAGE_BYTES
from oncely_cdk.paths import REPOSITORY
from tests.infra.assembly import Assembly

ONE_MIB = 1024 * 1024


def statements(assembly: Assembly, type_: str) -> list[dict[str, Any]]:
    policies = assembly.properties(type_).values()
    return [one for policy in policies for one in policy["PolicyDocument"]["Statement"]]


def denies_plain_http(statement: dict[str, Any]) -> bool:
    return bool(
        statement["Effect"] == "Deny"
        and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
    )


def test_every_table_has_recovery_and_deletion_protection(prod: Assembly) -> None:
    tables = prod.of_type("AWS::DynamoDB::Table")

    names = ("Jobs", "Orders", "Records", "ImportEvents")
    assert set(tables) >= {f"Tables/{name}" for name in names}
    for table in tables.values():
        properties = table["Properties"]
        assert properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
        assert properties["DeletionProtectionEnabled"] is True
        assert properties["BillingMode"] == "PAY_PER_REQUEST"
        assert properties["TableClass"] == "STANDARD"
        assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_capacity_and_table_class_can_be_changed(optional: Assembly) -> None:
    units = {"ReadCapacityUnits": 50, "WriteCapacityUnits": 100}

    for properties in optional.properties("AWS::DynamoDB::Table").values():
        assert properties["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
        assert properties["ProvisionedThroughput"] == units
        for index in properties.get("GlobalSecondaryIndexes", ()):
            assert index["ProvisionedThroughput"] == units


def test_job_table_expires_rows_and_streams_both_images(prod: Assembly) -> None:
    jobs = prod.properties("AWS::DynamoDB::Table")["Tables/Jobs"]

    assert jobs["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert jobs["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert [index["IndexName"] for index in jobs["GlobalSecondaryIndexes"]] == [
        *("due", "by_subject", "by_customer", "by_reference", "attention")
    ]


def test_imported_data_expires(prod: Assembly) -> None:
    tables = prod.properties("AWS::DynamoDB::Table")
    for name in ("Records", "ImportEvents"):
        ttl = tables[f"Tables/{name}"]["TimeToLiveSpecification"]
        assert ttl == {"AttributeName": "expires_at", "Enabled": True}
    assert "TimeToLiveSpecification" not in tables["Tables/Orders"]
    assert prod.functions["SyncWorker/Worker"].variables["IMPORT_EVENTS_RETENTION_DAYS"] == "400"
    assert "IMPORT_EVENTS_RETENTION_DAYS" not in prod.functions["MailWorker/Worker"].variables


@pytest.mark.parametrize(("stage", "days"), [("prod", 90), ("optional", 30)])
def test_rejects_expire_with_all_their_versions(
    request: pytest.FixtureRequest, stage: str, days: int
) -> None:
    assembly: Assembly = request.getfixturevalue(stage)
    (bucket,) = assembly.properties("AWS::S3::Bucket").values()
    rules = bucket["LifecycleConfiguration"]["Rules"]

    (rejects,) = [one for one in rules if one.get("Prefix") == "rejects/"]
    assert (rejects["Status"], rejects["ExpirationInDays"]) == ("Enabled", days)
    assert rejects["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}
    # The history is proof: no other rule removes a current object, except reports and selections.
    expiring = {one["Prefix"] for one in rules if "ExpirationInDays" in one}
    assert expiring == {"rejects/", "audits/", "bulk/"}


def test_every_queue_is_encrypted_and_denies_plain_http(prod: Assembly) -> None:
    queues = prod.properties("AWS::SQS::Queue")
    refusals = [one for one in statements(prod, "AWS::SQS::QueuePolicy") if denies_plain_http(one)]

    assert all(queue["SqsManagedSseEnabled"] for queue in queues.values())
    assert len(refusals) == len(queues) >= 6


def test_queue_visibility_is_six_timeouts_with_five_receives(prod: Assembly) -> None:
    timeout = prod.functions["PaymentsWorker/Worker"].properties["Timeout"]
    dead_letters = {"Fn::GetAtt": [_id(prod, "Queues/DeadLetters"), "Arn"]}
    for name in ("Payments", "Sync", "Mail"):
        queue = prod.of_type("AWS::SQS::Queue")[f"Queues/{name}"]["Properties"]
        assert queue["VisibilityTimeout"] == 6 * timeout
        assert queue["RedrivePolicy"] == {
            "deadLetterTargetArn": dead_letters,
            "maxReceiveCount": 50,
        }


def test_every_accepted_message_fits_rejects_queue(prod: Assembly) -> None:
    queues = prod.properties("AWS::SQS::Queue")

    for name in ("Payments", "Sync", "Mail"):
        assert MAX_MESSAGE_BYTES < queues[f"Queues/{name}"]["MaximumMessageSize"] <= ONE_MIB // 2
    assert "MaximumMessageSize" not in queues["Queues/Rejects"], "it takes the most that SQS does"


def test_dead_letters_are_batched_for_alerts(prod: Assembly) -> None:
    mappings = prod.properties("AWS::Lambda::EventSourceMapping")
    mapping = mappings["DeadLetters/Receive/Live/Messages"]

    assert (mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]) == (100, 60)


def test_worker_concurrency_is_bounded(prod: Assembly) -> None:
    mappings = prod.properties("AWS::Lambda::EventSourceMapping")
    bounds = {
        path.partition("/")[0]: mapping["ScalingConfig"]["MaximumConcurrency"]
        for path, mapping in mappings.items()
        if path.endswith("Messages")
    }

    assert set(bounds) >= {"PaymentsWorker", "SyncWorker", "MailWorker", "DeadLetters", "Rejects"}
    assert set(bounds.values()) == {2}


def test_every_mapping_reports_batch_item_failures(prod: Assembly) -> None:
    for mapping in prod.properties("AWS::Lambda::EventSourceMapping").values():
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_publish_stream_bisects_and_has_failure_destination(prod: Assembly) -> None:
    stream = prod.properties("AWS::Lambda::EventSourceMapping")["Stream/Publish/Stream"]
    missed = {"Fn::GetAtt": [_id(prod, "Stream/Missed"), "Arn"]}

    assert stream["BisectBatchOnFunctionError"] is True
    assert stream["MaximumRetryAttempts"] == 10
    assert stream["DestinationConfig"] == {"OnFailure": {"Destination": missed}}
    (pattern,) = stream["FilterCriteria"]["Filters"]
    image = {
        "status": {"S": ["cancelled", "failed", "finished"]},
        "due_at": {"S": [{"exists": True}]},
    }
    assert json.loads(pattern["Pattern"]) == {"dynamodb": {"NewImage": image}}


def test_history_stream_takes_every_change_and_reports_gaps(prod: Assembly) -> None:
    stream = prod.properties("AWS::Lambda::EventSourceMapping")["History/Write/Stream"]
    gaps = {"Fn::GetAtt": [_id(prod, "History/Gaps"), "Arn"]}

    assert "FilterCriteria" not in stream
    assert (stream["BatchSize"], stream["MaximumBatchingWindowInSeconds"]) == (10_000, 60)
    assert stream["BisectBatchOnFunctionError"] is True
    # Lambda drops and reports a record before the stream drops it silently.
    assert stream["MaximumRetryAttempts"] == -1
    assert stream["MaximumRecordAgeInSeconds"] == 22 * 3600 < 24 * 3600
    assert stream["DestinationConfig"] == {"OnFailure": {"Destination": gaps}}
    assert stream["StartingPosition"] == "TRIM_HORIZON"


def test_archive_is_versioned_private_encrypted_and_retained(prod: Assembly) -> None:
    (bucket,) = prod.of_type("AWS::S3::Bucket").values()
    properties = bucket["Properties"]

    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert "BucketEncryption" in properties
    assert bucket["DeletionPolicy"] == "Retain"
    assert any(map(denies_plain_http, statements(prod, "AWS::S3::BucketPolicy")))


def test_alert_topic_is_encrypted_and_accepts_alarms(prod: Assembly) -> None:
    policy = prod.only("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    allowed = [one["Principal"] for one in policy if one["Effect"] == "Allow"]

    own_account = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    key = prod.only("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    by_service = [one for one in (*policy, *key) if "Service" in one["Principal"]]

    # Without the condition, alarms of any account could publish here.
    assert [one["Condition"] for one in by_service] == [own_account, own_account]
    assert "KmsMasterKeyId" in prod.only("AWS::SNS::Topic")
    assert allowed == [{"Service": "cloudwatch.amazonaws.com"}]
    assert prod.only("AWS::SNS::Subscription")["Endpoint"] == "ops@example.com"


def test_secrets_are_empty_or_generated_and_retained(prod: Assembly) -> None:
    secrets = prod.of_type("AWS::SecretsManager::Secret")

    assert set(secrets) >= {"ProviderSecrets/Stripe", "ProviderSecrets/Hubspot"}
    generated = set()
    for name, secret in secrets.items():
        assert "SecretString" not in secret["Properties"]
        assert secret["DeletionPolicy"] == "Retain"
        if "GenerateSecretString" in secret["Properties"]:
            generated.add(name)
    assert generated == {"AdminPage/AccessLogKey"}


def test_functions_log_to_own_group_and_all_but_find_are_traced(prod: Assembly) -> None:
    untraced = set()

    for function in prod.functions.values():
        group = function.properties["LoggingConfig"]["LogGroup"]["Ref"]
        assert prod.path(group) == f"{function.name}/Logs"
        if function.properties.get("TracingConfig") != {"Mode": "Active"}:
            untraced.add(function.name)
    assert untraced == {"Reconciler/Find"}


def test_access_log_is_kept_longer_than_other_logs(prod: Assembly) -> None:
    groups = prod.properties("AWS::Logs::LogGroup")
    kept = {name for name, group in groups.items() if group["RetentionInDays"] == 365}

    assert kept == {f"AdminPage{name}/Logs" for name in ("", "/Read", "/Repair")}
    assert {group["RetentionInDays"] for group in groups.values()} == {90, 365}


def test_only_function_that_feeds_its_own_queue_may_loop(prod: Assembly) -> None:
    loops = {name: one.properties.get("RecursiveLoop") for name, one in prod.functions.items()}

    assert {name for name, how in loops.items() if how == "Allow"} == {"SyncWorker/Worker"}


def test_outputs_include_names_that_tools_use(prod: Assembly) -> None:
    assert set(prod.template["Outputs"]) >= {
        *("PaymentsQueueUrl", "SyncQueueUrl", "MailQueueUrl"),
        *("RejectsQueueUrl", "DeadLetterQueueUrl", "MissedQueueUrl", "GapsQueueUrl"),
        *("JobsTableName", "OrdersTableName", "RecordsTableName", "ImportEventsTableName"),
        *("ReconcilerArn", "ArchiveBucketName", "EventBusName", "AlertTopicArn"),
        *("StripeSecretArn", "HubspotSecretArn"),
        *("AdminUrl", "UserPoolId", "RowRetentionDays"),
    }


def test_fixed_names_include_stage(prod: Assembly) -> None:
    # CloudFormation generates all other names, which makes them unique.
    fixed = {
        "AWS::ApiGatewayV2::Api": "Name",
        "AWS::Events::EventBus": "Name",
        "AWS::Logs::LogGroup": "LogGroupName",
    }
    names = [
        name
        for type_, field in fixed.items()
        for properties in prod.properties(type_).values()
        if (name := properties.get(field))
    ]

    assert len(names) == len(fixed)
    assert all("prod" in name for name in names)


def _id(assembly: Assembly, path: str) -> str:
    return next(id_ for id_ in assembly.resources if assembly.path(id_) == path)


COSTS = (REPOSITORY / "docs" / "costs.md").read_text(encoding="utf-8")


def test_dashboard_is_off_by_default(prod: Assembly) -> None:
    assert prod.of_type("AWS::CloudWatch::Dashboard") == {}
    assert "| dashboard |" not in COSTS
    assert "`dashboard = true` adds a dashboard for 3.00 a month" in COSTS
