"""Logical ids of resources with data. With another id, a deployment creates an empty one."""

from typing import Final

from tests.infra.assembly import Assembly

STATEFUL_TYPES: Final = frozenset(
    {
        *("AWS::Cognito::UserPool", "AWS::DynamoDB::Table", "AWS::Events::EventBus"),
        *("AWS::KMS::Key", "AWS::S3::Bucket", "AWS::SNS::Topic", "AWS::SQS::Queue"),
        "AWS::SecretsManager::Secret",
    }
)
# Add to this list, and never change it: teams have deployed these.
LOGICAL_IDS: Final = frozenset(
    {
        "AdminPageAccessLogKey647EF48A",
        "AdminPageUsersPoolB474FBB8",
        "AlertsKey9E1197AF",
        "AlertsTopicCF7C81C9",
        "ArchiveBucket49F1AC64",
        "EventIntakeDeadLetters8E69B65C",
        "EventIntakeQueueA3562FCF",
        "EventsD32975C2",
        "HistoryGaps2B8A6FB5",
        "ProviderSecretsHubspotEB4C0DA5",
        "ProviderSecretsStripe79E13D38",
        "QueuesDeadLettersF0D5D2AD",
        "QueuesMail440F369D",
        "QueuesPaymentsC53952ED",
        "QueuesRejects71765F51",
        "QueuesSyncBBC98795",
        "StreamMissedEBFEA901",
        "TablesGatesFF4D55A0",
        "TablesImportEvents6B22D983",
        "TablesJobs313634AE",
        "TablesOrdersACF7C9C0",
        "TablesRecords353FBC94",
        "TablesRefundRequests15A6C4BB",
        "TablesRefunds6825E1DB",
    }
)


def test_logical_ids_of_stateful_resources_are_stable(prod: Assembly) -> None:
    found = {id_ for id_, one in prod.resources.items() if one["Type"] in STATEFUL_TYPES}

    assert found == LOGICAL_IDS
