"""Jobs that only a test would think of, in a deployed stack."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Final

from oncely.adapters.job_rows import to_attributes
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from tests.e2e.deployment import Deployment
from tests.e2e.unresolved import store
from tests.support.mass import sized

HOSTILE: Final = """<img src=x onerror="document.title='owned'"><script>alert(1)</script>'"""
MANY: Final = sized(1_200, full=10_000)
BATCH: Final = 25


def hostile_job(stack: Deployment) -> str:
    """A job whose every text wants to be markup."""
    key = """payment.charge:order_"7'%3A<b>"""
    store(stack).create(_for_a_person(key, HOSTILE))
    return key


def many_jobs(stack: Deployment) -> None:
    """More jobs that need review than the page counts."""
    rows = [
        to_attributes(_for_a_person(f"sync.contact:hubspot:{name}:1", f"hubspot#{name}"))
        for name in (f"many-{number}" for number in range(MANY))
    ]
    table, client = stack.outputs["JobsTableName"], stack.client("dynamodb")

    def write(first: int) -> None:
        puts = [{"PutRequest": {"Item": row}} for row in rows[first : first + BATCH]]
        client.batch_write_item(RequestItems={table: puts})

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(write, range(0, MANY, BATCH)))


def _for_a_person(key: str, text: str) -> Job:
    """It is not due: somebody was told, and the schedule leaves it alone."""
    job_type = key.partition(":")[0]
    before = datetime.now(UTC) - timedelta(minutes=5)
    return Job(
        job_key=JobKey(key),
        job_type=job_type,
        status=Status.NEEDS_REVIEW,
        message={"job": job_type, "v": 1},
        created_at=before,
        updated_at=before,
        since=before,
        subject=text,
        customer_id=text,
        last_error=text,
    )
