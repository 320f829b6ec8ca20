"""`oncely contracts`: what a job type does and guarantees."""

import json
import re

from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.shipped import SHIPPED_JOBS
from tests.support.cli import run_cli


def test_contract_is_printed_as_it_describes_itself() -> None:
    result = run_cli("contracts", "payment.charge")
    assert result.exit_code == 0
    assert result.stdout.startswith(str(PaymentCharge.describe_fields()))


def test_every_contract_is_printed() -> None:
    result = run_cli("contracts").stdout
    assert all(str(contract_type.describe_fields()) in result for contract_type in SHIPPED_JOBS)


def test_json_output_includes_message_schema() -> None:
    lines = run_cli("contracts", "--json").stdout.splitlines()
    described = {one["job_type"]: one for one in map(json.loads, lines)}
    assert described.keys() == {contract_type.job_type for contract_type in SHIPPED_JOBS}
    assert described["payment.charge"]["schema"]["additionalProperties"] is False


def test_unknown_job_type_lists_known_ones() -> None:
    result = run_cli("contracts", "no.such")
    assert result.exit_code == 1
    assert re.search(r"known job types: .*payment\.charge", result.stderr)
