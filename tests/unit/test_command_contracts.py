"""`oncely contracts`: what a job type does and guarantees."""

import json
import re

from oncely.jobs import CONTRACTS
from oncely.jobs.payment_charge import PaymentCharge
from tests.support.cli import run_cli


def test_contract_is_printed_as_it_describes_itself() -> None:
    said = run_cli("contracts", "payment.charge")

    assert said.exit_code == 0
    assert said.stdout.startswith(PaymentCharge.describe())


def test_every_contract_is_printed() -> None:
    said = run_cli("contracts").stdout

    assert all(kind.describe() in said for kind in CONTRACTS)


def test_json_output_includes_message_schema() -> None:
    lines = run_cli("contracts", "--json").stdout.splitlines()

    told = {one["job_type"]: one for one in map(json.loads, lines)}
    assert told.keys() == {kind.job_type for kind in CONTRACTS}
    assert told["payment.charge"]["schema"]["additionalProperties"] is False


def test_unknown_job_type_lists_known_ones() -> None:
    said = run_cli("contracts", "no.such")

    assert said.exit_code == 1
    assert re.search(r"known here: .*payment\.charge", said.stderr)
