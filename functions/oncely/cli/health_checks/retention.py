"""Checks that proofs outlive every redelivery, and that archive and history are complete."""

from collections.abc import Iterator
from datetime import timedelta

from oncely.aws.objects import S3Objects
from oncely.cli.health_checks.deployed import DeployedStack
from oncely.history.archive import HistoryArchive
from oncely.plugins.health import Finding, failed, passed, warned


def check_retention(deployed: DeployedStack) -> Iterator[Finding]:
    """Compare row retention with queues, dead letters and idempotency keys; check the archive."""
    days = [
        int(variables["RETENTION_DAYS"])
        for function in deployed.functions
        if "RETENTION_DAYS" in (variables := function.get("Environment", {}).get("Variables", {}))
    ]
    check = "row retention"
    if not days:
        yield failed(check, "no function sets RETENTION_DAYS", "deploy the stack again")
        return
    row_retention, least = timedelta(days=min(days)), _min_retention(deployed)
    kept = min(one.effective_retention(row_retention) for one in deployed.contracts)
    if kept <= least:
        yield failed(
            check,
            f"rows are kept {kept.days} days, but a job could run again for {least.days} days",
            "raise row_retention_days in the stage's file, or the contract's proof_retention",
        )
    else:
        yield passed(check, f"{kept.days} days; a job could run again for {least.days} days")
    yield from _check_archive(deployed)


def _min_retention(deployed: DeployedStack) -> timedelta:
    kept = [
        int(deployed.queue(url)["MessageRetentionPeriod"])
        for name in deployed.queue_names
        if (url := deployed.queue_url(name))
    ]
    last = deployed.connection.outputs.get("DeadLetterQueueUrl")
    kept_after = 0 if last is None else int(deployed.queue(last)["MessageRetentionPeriod"])
    windows = [
        window
        for contract_type in deployed.contracts
        for policy in contract_type.all_policies()
        if (window := policy.profile.key_ttl) is not None
    ]
    return max(timedelta(seconds=max(kept, default=0) + kept_after), *windows, timedelta(0))


def _check_archive(deployed: DeployedStack) -> Iterator[Finding]:
    name = deployed.connection.outputs.get("ArchiveBucketName")
    if name is None:
        return
    client = deployed.connection.client("s3")
    client.head_bucket(Bucket=name)
    if client.get_bucket_versioning(Bucket=name).get("Status") == "Enabled":
        yield passed("archive", f"{name} is versioned")
    else:
        yield warned(
            "archive",
            "versioning is off: an archived message could be overwritten",
            f"aws s3api put-bucket-versioning --bucket {name} "
            "--versioning-configuration Status=Enabled",
        )


def check_history(deployed: DeployedStack) -> Iterator[Finding]:
    """Check for open gaps in the history."""
    bucket = deployed.connection.outputs.get("ArchiveBucketName")
    if bucket is None:
        return
    gaps = HistoryArchive(S3Objects(deployed.connection.client("s3"), bucket)).open_gaps()
    if not gaps:
        yield passed("history", "no open gaps")
        return
    yield failed(
        "history",
        f"{len(gaps)} open gaps since {gaps[0].recorded_at:%Y-%m-%d}: job changes are missing, "
        "and a restore is refused",
        f"oncely archive backfill{deployed.connection.cli_options}",
    )
