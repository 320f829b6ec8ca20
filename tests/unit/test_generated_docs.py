"""Pages that the code can tell are told by the code."""

import json

import pytest

from oncely.contract import AnyContract
from oncely.contracts import CONTRACTS
from oncely.registry import Registry
from ops_cli.render_docs import stale


def test_the_generated_pages_say_what_the_code_says() -> None:
    assert stale() == [], "run make docs"


@pytest.mark.parametrize("kind", CONTRACTS, ids=lambda kind: kind.job_type)
def test_the_example_of_each_job_is_a_message_that_is_taken(kind: type[AnyContract]) -> None:
    body = json.dumps(kind.example.model_dump(exclude_unset=True))

    found, message = Registry(CONTRACTS).parse(body)

    assert found is kind
    assert message == kind.example
