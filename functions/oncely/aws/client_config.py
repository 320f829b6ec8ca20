"""Timeouts and retries of the AWS clients, within the budgets that the engine relies on."""

from typing import Final

from botocore.config import Config

# Two tries of 0.5 s to connect and 1 s to read, and a pause of at most 1 s between them: no
# DynamoDB call takes longer than 4 s, and COMMIT_BUDGET in core/profiles.py holds two of them.
DYNAMODB: Final = Config(
    connect_timeout=0.5,
    read_timeout=1,
    retries={"mode": "standard", "total_max_attempts": 2},
    max_pool_connections=32,
    # A third of the SDK's work on a job. DynamoDB checks each request itself, and ours are built
    # by code that tests run against it; the SDK's own name is put together anew for each request.
    parameter_validation=False,
    user_agent="oncely",
)
# Queues, topics and secrets: duplicates are harmless.
MESSAGING: Final = Config(
    connect_timeout=1,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=32,
)
