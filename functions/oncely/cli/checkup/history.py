"""Whether the history of jobs is whole."""

from collections.abc import Iterator

from oncely.aws.s3_history_reader import S3HistoryReader
from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed


def check_history(deployed: DeployedStack) -> Iterator[Finding]:
    """The gaps that no backfill has closed."""
    bucket = deployed.connection.outputs.get("ArchiveBucketName")
    if bucket is None:
        return
    gaps = S3HistoryReader(deployed.connection.client("s3"), bucket).open_gaps()
    if not gaps:
        yield passed("history", "no gap is open")
        return
    yield failed(
        "history",
        f"{len(gaps)} gaps since {gaps[0].recorded_at:%Y-%m-%d}: changes of jobs are missing, "
        "and a restore is refused",
        f"oncely archive backfill{deployed.connection.cli_options}",
    )
