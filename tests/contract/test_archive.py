"""The archive keeps the newest end of a key, whoever writes last."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import boto3
import pytest

from oncely.adapters.s3_archive import S3Archive
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.ports import Archive
from tests.support.engines import Kind
from tests.support.fakes import FakeArchive
from tests.unit.samples import a_job

FIRST = a_job(status=Status.FINISHED, version=5)
RULED = replace(FIRST, status=Status.FAILED, version=8)


@pytest.fixture(params=[Kind.MEMORY, Kind.MINISTACK])
def archive(request: pytest.FixtureRequest, no_profile: None) -> Iterator[Archive]:
    if request.param is Kind.MEMORY:
        yield FakeArchive()
        return
    url = request.getfixturevalue("ministack")
    with closing(
        boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
    ) as client:
        bucket = f"archive-{uuid4().hex[:12]}"
        client.create_bucket(Bucket=bucket)
        yield S3Archive(client, bucket)


def test_what_is_kept_is_found_and_what_is_not_is_none(archive: Archive) -> None:
    archive.keep(FIRST)

    assert archive.find(FIRST.job_key) == FIRST
    assert archive.find(JobKey("payment.charge:order_other")) is None


def test_keeping_it_again_changes_nothing(archive: Archive) -> None:
    archive.keep(FIRST)

    archive.keep(FIRST)

    assert archive.find(FIRST.job_key) == FIRST


def test_a_newer_end_takes_the_place_of_an_older_one(archive: Archive) -> None:
    archive.keep(FIRST)

    archive.keep(RULED)

    assert archive.find(FIRST.job_key) == RULED


def test_an_older_end_that_comes_late_does_not_take_the_place_of_a_newer_one(
    archive: Archive,
) -> None:
    archive.keep(RULED)

    archive.keep(FIRST)

    assert archive.find(FIRST.job_key) == RULED


def test_the_row_of_a_replay_is_newer_though_it_counts_its_writes_anew(archive: Archive) -> None:
    archive.keep(RULED)
    replayed = replace(FIRST, created_at=RULED.created_at + timedelta(days=100), version=3)

    archive.keep(replayed)

    assert archive.find(FIRST.job_key) == replayed
