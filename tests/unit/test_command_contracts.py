"""`oncely contracts`: what a job promises, in plain language."""

import json
import re

from oncely.contracts import CONTRACTS
from oncely.contracts.payment_charge import PaymentCharge
from tests.support.command import oncely


def test_a_contract_reads_as_it_describes_itself() -> None:
    said = oncely("contracts", "payment.charge")

    assert said.exit_code == 0
    assert said.stdout.startswith(PaymentCharge.describe())


def test_every_contract_is_told() -> None:
    said = oncely("contracts").stdout

    assert all(kind.describe() in said for kind in CONTRACTS)


def test_programs_get_the_schema_as_well() -> None:
    lines = oncely("contracts", "--json").stdout.splitlines()

    told = {one["job_type"]: one for one in map(json.loads, lines)}
    assert told.keys() == {kind.job_type for kind in CONTRACTS}
    assert told["payment.charge"]["schema"]["additionalProperties"] is False


def test_an_unknown_job_type_is_answered_with_those_there_are() -> None:
    said = oncely("contracts", "no.such")

    assert said.exit_code == 1
    assert re.search(r"known here: .*payment\.charge", said.stderr)
