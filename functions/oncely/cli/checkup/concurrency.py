"""Whether the account lets all functions of the stack run at once."""

from collections.abc import Iterator
from typing import Final

from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding, passed, warned

# Beside the functions that queues feed: the reconciler resolves 10 jobs at once; the stream, the
# schedule and the admin page take the rest.
OTHER_FUNCTIONS_CONCURRENCY: Final = 20


def check_concurrency(deployed: DeployedStack) -> Iterator[Finding]:
    """The account's limit beside what the stack may use; a new account often has 10."""
    if deployed.connection.is_local:
        return
    check = "concurrency"
    limits = deployed.connection.client("lambda").get_account_settings()["AccountLimit"]
    limit = int(limits["ConcurrentExecutions"])
    fed = (
        one.get("ScalingConfig", {}).get("MaximumConcurrency", 0)
        for one in deployed.event_source_mappings
    )
    wanted = sum(fed) + OTHER_FUNCTIONS_CONCURRENCY
    if limit >= wanted:
        yield passed(check, f"the account runs up to {limit:,} functions at once")
        return
    yield warned(
        check,
        f"the account runs {limit} functions at once, this stack up to {wanted}: under load they "
        "are throttled, and messages come late or through the dead letters",
        # AWS's own code for the quota "Concurrent executions".
        "aws service-quotas request-service-quota-increase --service-code lambda "
        "--quota-code L-B99A9384 --desired-value 1000",
    )
