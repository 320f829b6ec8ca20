"""Whether the account lets all functions of the stack run at once."""

from collections.abc import Iterator
from typing import Final

from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding, ok, warning

# Beside the functions that queues feed: the reconciler resolves 10 jobs at once; the stream, the
# schedule and the admin page take the rest.
OTHERS: Final = 20


def concurrency(deployed: Deployed) -> Iterator[Finding]:
    """The account's limit beside what the stack may use; a new account often has 10."""
    if deployed.place.is_local:
        return
    about = "concurrency"
    limits = deployed.place.client("lambda").get_account_settings()["AccountLimit"]
    limit = int(limits["ConcurrentExecutions"])
    fed = (one.get("ScalingConfig", {}).get("MaximumConcurrency", 0) for one in deployed.mappings)
    wanted = sum(fed) + OTHERS
    if limit >= wanted:
        yield ok(about, f"the account runs up to {limit:,} functions at once")
        return
    yield warning(
        about,
        f"the account runs {limit} functions at once, this stack up to {wanted}: under load they "
        "are throttled, and messages come late or through the dead letters",
        # AWS's own code for the quota "Concurrent executions".
        "aws service-quotas request-service-quota-increase --service-code lambda "
        "--quota-code L-B99A9384 --desired-value 1000",
    )
