"""Whether the proof that a job ran outlives everything that could run it again."""

from collections.abc import Iterator
from datetime import timedelta

from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding, broken, ok, warning


def retention(deployed: Deployed) -> Iterator[Finding]:
    """Rows against queues, dead letters and the providers' memories; and the archive."""
    days = [
        int(variables["RETENTION_DAYS"])
        for function in deployed.functions
        if "RETENTION_DAYS" in (variables := function.get("Environment", {}).get("Variables", {}))
    ]
    about = "retention of rows"
    if not days:
        yield broken(about, "no function says how long rows are kept", "deploy the stack again")
        return
    row_retention, least = timedelta(days=min(days)), _least(deployed)
    kept = min(kind.kept_for(row_retention) for kind in deployed.contracts)
    if kept <= least:
        yield broken(
            about,
            f"rows are kept {kept.days} days, a job could run again for {least.days}",
            "set a larger row_retention_days: `make deploy ARGS='-c row_retention_days=…'`, "
            "or a larger proof_retention of the contract",
        )
    else:
        yield ok(about, f"{kept.days} days; a message may come back for {least.days}")
    yield from _archive(deployed)


def _least(deployed: Deployed) -> timedelta:
    kept = [
        int(deployed.queue(url)["MessageRetentionPeriod"])
        for name in deployed.queue_names
        if (url := deployed.queue_url(name))
    ]
    last = deployed.place.outputs.get("DeadLetterQueueUrl")
    kept_after = 0 if last is None else int(deployed.queue(last)["MessageRetentionPeriod"])
    windows = [
        window
        for kind in deployed.contracts
        if (window := kind.terms.profile.key_window) is not None
    ]
    return max(timedelta(seconds=max(kept, default=0) + kept_after), *windows, timedelta(0))


def _archive(deployed: Deployed) -> Iterator[Finding]:
    name = deployed.place.outputs.get("ArchiveBucketName")
    if name is None:
        return
    client = deployed.place.client("s3")
    client.head_bucket(Bucket=name)
    if client.get_bucket_versioning(Bucket=name).get("Status") == "Enabled":
        yield ok("archive", f"{name} keeps every version")
    else:
        yield warning(
            "archive",
            "versioning is off: an archived message could be overwritten for good",
            f"aws s3api put-bucket-versioning --bucket {name} "
            "--versioning-configuration Status=Enabled",
        )
