"""Whether the proof that a job ran outlives everything that could run it again."""

from collections.abc import Iterator
from datetime import timedelta

from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed, warned


def check_retention(deployed: DeployedStack) -> Iterator[Finding]:
    """Rows against queues, dead letters and the providers' memories; and the archive."""
    days = [
        int(variables["RETENTION_DAYS"])
        for function in deployed.functions
        if "RETENTION_DAYS" in (variables := function.get("Environment", {}).get("Variables", {}))
    ]
    check = "retention of rows"
    if not days:
        yield failed(check, "no function says how long rows are kept", "deploy the stack again")
        return
    row_retention, least = timedelta(days=min(days)), _min_retention(deployed)
    kept = min(
        contract_type.effective_retention(row_retention) for contract_type in deployed.contracts
    )
    if kept <= least:
        yield failed(
            check,
            f"rows are kept {kept.days} days, a job could run again for {least.days}",
            "set a larger row_retention_days: `make deploy ARGS='-c row_retention_days=…'`, "
            "or a larger proof_retention of the contract",
        )
    else:
        yield passed(check, f"{kept.days} days; a message may come back for {least.days}")
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
        if (window := contract_type.policy.profile.key_ttl) is not None
    ]
    return max(timedelta(seconds=max(kept, default=0) + kept_after), *windows, timedelta(0))


def _check_archive(deployed: DeployedStack) -> Iterator[Finding]:
    name = deployed.connection.outputs.get("ArchiveBucketName")
    if name is None:
        return
    client = deployed.connection.client("s3")
    client.head_bucket(Bucket=name)
    if client.get_bucket_versioning(Bucket=name).get("Status") == "Enabled":
        yield passed("archive", f"{name} keeps every version")
    else:
        yield warned(
            "archive",
            "versioning is off: an archived message could be overwritten for good",
            f"aws s3api put-bucket-versioning --bucket {name} "
            "--versioning-configuration Status=Enabled",
        )
