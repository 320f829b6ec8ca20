"""The docs pages that are built from code."""

import json
from pathlib import Path

import pytest

from oncely.cli.render_docs import find_stale, generated_files
from oncely.contracts.job import AnyJob
from oncely.contracts.message import Message
from oncely.contracts.registry import JobRegistry
from oncely.core.keys import MAX_KEY_LENGTH
from oncely.jobs.shipped import SHIPPED_JOBS


def test_generated_pages_match_code() -> None:
    assert find_stale() == [], "run make docs"


def parse_example(contract: type[AnyJob], **fields: object) -> Message:
    body = json.dumps({**contract.example_message(), **fields})
    return JobRegistry(SHIPPED_JOBS).parse_body(body)[1]


@pytest.mark.parametrize("contract", SHIPPED_JOBS, ids=lambda contract: contract.job_type)
def test_example_of_each_contract_is_valid_message(contract: type[AnyJob]) -> None:
    body = json.dumps(contract.example_message())
    found, message = JobRegistry(SHIPPED_JOBS).parse_body(body)
    assert (found, message) == (contract, contract.example)


def test_message_page_explains_fields_to_producers() -> None:
    page = generated_files()[Path("messages.md")]
    for fact in ("minor units", "three letters", "a time, such as", f"at most {MAX_KEY_LENGTH}"):
        assert fact in page
