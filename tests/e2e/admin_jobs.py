"""Unusual jobs in a deployed stack."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.row_items import serialize_job
from tests.e2e.deployed_stack import StackClient
from tests.e2e.unresolved_jobs import job_store
from tests.support.load_size import choose_size

HOSTILE: Final = """<img src=x onerror="document.title='owned'"><script>alert(1)</script>'"""
JOB_COUNT: Final = choose_size(1_200, full=10_000)
BATCH: Final = 25


def hostile_job(stack: StackClient) -> str:
    key = """payment.charge:order_"7'%3A<b>"""
    job_store(stack).create(_review_job(key, HOSTILE))
    return key


def unreadable_job(stack: StackClient) -> JobKey:
    """A job whose row was edited by hand into one that cannot be read."""
    job = _review_job("payment.charge:order_edited", "edited")
    row = {**serialize_job(job), "attempts": {"S": "many"}}
    stack.client("dynamodb").put_item(TableName=stack.outputs["JobsTableName"], Item=row)
    return job.job_key


def bulk_reviews(stack: StackClient, name: str, count: int) -> list[JobKey]:
    """Reviews of jobs that no worker claimed. A test selects its own by the text in their error."""
    keys: list[JobKey] = []
    for number in range(count):
        order = f"{name}-{number}"
        job = _review_job(f"payment.charge:order_{order}", order)
        message = {**job.message, "order_id": order}
        error = f"order {order} does not exist"
        job = replace(job, message=message, last_error=error, customer_id=f"customer_{number}")
        job_store(stack).create(replace(job, amount=1900 + number, currency="eur"))
        keys.append(job.job_key)
    return keys


def many_jobs(stack: StackClient) -> None:
    rows = [
        # Older than the others: a list begins with the newest, and a page reads some hundreds.
        serialize_job(_review_job(f"sync.contact:hubspot:{name}:1", f"hubspot#{name}", hours=12))
        for name in (f"many-{number}" for number in range(JOB_COUNT))
    ]
    table, client = stack.outputs["JobsTableName"], stack.client("dynamodb")

    def write(first: int) -> None:
        puts = [{"PutRequest": {"Item": row}} for row in rows[first : first + BATCH]]
        client.batch_write_item(RequestItems={table: puts})

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(write, range(0, JOB_COUNT, BATCH)))


def _review_job(key: str, text: str, *, hours: int = 0) -> JobRow:
    # Without a due time the scheduled sweep leaves it alone.
    job_type = key.partition(":")[0]
    before = datetime.now(UTC) - timedelta(hours=hours, minutes=5)
    return JobRow(
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
