"""The JSON body of a repair: valid fields, and errors for all others."""

import json

import pytest

from oncely.admin_page.request_bodies import RepairBody
from oncely.core.errors import InvalidRequestError
from oncely.core.keys import JobKey
from oncely.core.repairs import Repair
from oncely.operate.repair_request import RepairRequest
from tests.unit.samples import KEY

BODY = {"key": KEY, "repair": "mark-failed", "version": 3, "reason": "the customer called"}


def parse_request(**more: object) -> RepairRequest:
    return RepairBody.parse(json.dumps({**BODY, **more})).to_request(actor="ada")


def test_body_becomes_repair_by_signed_in_user() -> None:
    assert parse_request() == RepairRequest(
        key=JobKey(KEY),
        repair=Repair.MARK_FAILED,
        version=3,
        reason="the customer called",
        actor="ada",
        reference=None,
        dry_run=False,
    )


@pytest.mark.parametrize(
    ("reference", "kept"), [(" ch_1 ", "ch_1"), ("  ", None), ("", None), (None, None)]
)
def test_reference_is_stripped_and_none_when_blank(reference: str | None, kept: str | None) -> None:
    assert parse_request(reference=reference).reference == kept


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("not JSON", "invalid repair request: body: Invalid JSON"),
        (json.dumps({**BODY, "version": "3"}), "invalid repair request: version: Input"),
        (json.dumps({**BODY, "dry_run": "no"}), "invalid repair request: dry_run: Input"),
        (json.dumps({**BODY, "actor": "eve"}), "invalid repair request: actor: Extra inputs"),
        (
            json.dumps({**BODY, "repair": "charge"}),
            "invalid repair request: repair: Input should be 'lookup'",
        ),
    ],
)
def test_invalid_body_names_wrong_field(body: str, why: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        RepairBody.parse(body).to_request(actor="ada")
    assert str(caught.value).startswith(why)
    assert "eve" not in str(caught.value)
