"""The producer's API: what an application imports to enqueue jobs."""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from oncely.app import App
from oncely.aws.clients import AwsClients
from oncely.contracts.job import AnyJob
from oncely.contracts.registry import JobRegistry
from oncely.contracts.settings import Settings
from oncely.enqueue.enqueuer import Enqueuer
from oncely.ports import Ports

if TYPE_CHECKING:
    import boto3


def create_producer(
    jobs: Iterable[type[AnyJob]],
    *,
    jobs_table: str | None = None,
    queue_urls: Mapping[str, str] | None = None,
    session: "boto3.Session | None" = None,
) -> Enqueuer:
    """Create an enqueuer; `queue_urls` maps short names, as in `{"payments": "https://…"}`.

    Missing arguments are read from the variables that the construct's `grant_send` sets.
    """
    jobs = tuple(jobs)
    settings = Settings.from_env(os.environ, jobs)
    given = {"jobs_table": jobs_table, "queues": queue_urls}
    settings = settings.model_copy(update={name: one for name, one in given.items() if one})
    ports = Ports(settings, AwsClients(session))
    return App(settings, JobRegistry(jobs), ports).enqueuer
