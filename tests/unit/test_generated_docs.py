"""The docs pages that are built from code."""

import json
from pathlib import Path

import pytest

from oncely.cli.render_docs import find_stale, generated_files
from oncely.contracts.job import AnyJob
from oncely.contracts.registry import JobRegistry
from oncely.core.keys import MAX_KEY_LENGTH
from oncely.jobs.shipped import SHIPPED_JOBS


def test_generated_pages_match_code() -> None:
    assert find_stale() == [], "run make docs"


@pytest.mark.parametrize("contract", SHIPPED_JOBS, ids=lambda contract: contract.job_type)
def test_example_of_each_contract_is_valid_message(contract: type[AnyJob]) -> None:
    job = JobRegistry(SHIPPED_JOBS).parse_body(json.dumps(contract.example_message()))
    assert type(job) is contract
    assert job.to_dict() == contract.example_message()


def test_message_page_explains_fields_to_producers() -> None:
    page = generated_files()[Path("messages.md")]
    for fact in ("minor units", "three letters", "a time, such as", f"at most {MAX_KEY_LENGTH}"):
        assert fact in page
