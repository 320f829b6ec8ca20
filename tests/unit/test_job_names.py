"""Job types by name: functions read ONCELY_JOBS, the command reads `[tool.oncely]`."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncely.contracts.job import AnyJob
from oncely.contracts.job_names import import_jobs, jobs_from_env, name_jobs, refuse_other_jobs
from oncely.core.errors import NotConfiguredError
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.shipped import SHIPPED_JOBS
from tests.support.cli import run_cli

CHARGE = "oncely.jobs.payment_charge:PaymentCharge"
LIST = "oncely.jobs.shipped:SHIPPED_JOBS"


def test_names_import_the_contracts_that_were_named() -> None:
    assert jobs_from_env({"ONCELY_JOBS": name_jobs(SHIPPED_JOBS)}) == SHIPPED_JOBS
    assert name_jobs([PaymentCharge]) == CHARGE


def test_name_of_a_list_imports_its_contracts() -> None:
    assert import_jobs([LIST], source="here") == SHIPPED_JOBS


def test_function_can_have_no_job_type_but_must_say_so() -> None:
    assert jobs_from_env({"ONCELY_JOBS": ""}) == ()
    with pytest.raises(NotConfiguredError, match=r"\(ONCELY_JOBS: missing\): deploy the stack"):
        jobs_from_env({})


def test_own_function_must_run_the_jobs_it_was_deployed_for() -> None:
    two = [ReceiptSend, PaymentCharge]
    refuse_other_jobs(two, {"ONCELY_JOBS": name_jobs(reversed(two))})
    refuse_other_jobs(two, {})  # in a team's own test
    for own in ([PaymentCharge], [*two, SHIPPED_JOBS[-1]]):
        with pytest.raises(NotConfiguredError, match="but the stack deployed it for"):
            refuse_other_jobs(own, {"ONCELY_JOBS": name_jobs(two)})


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("oncely.jobs.payment_charge", "write it like shop.vouchers:VoucherIssue"),
        (":PaymentCharge", "write it like shop.vouchers:VoucherIssue"),
        ("shop.vouchers:VoucherIssue", "(ModuleNotFoundError: No module named 'shop'): correct"),
        ("oncely.jobs.payment_charge:Charge", "oncely.jobs.payment_charge has no Charge"),
        ("oncely.jobs.payment_charge:Order", "Order'> is not a job"),
        ("oncely:Job", "Job'> is not a job: use a subclass of oncely.Job that defines"),
        ("oncely.core.keys:MAX_ID_LENGTH", "128 is not a job"),
        (f"{CHARGE},{CHARGE}", f"lists PaymentCharge twice, as '{CHARGE}' and '{CHARGE}'"),
        (f"{CHARGE}, {LIST}", f"lists PaymentCharge twice, as '{CHARGE}' and '{LIST}'"),
    ],
)
def test_wrong_name_gets_one_sentence_that_names_it(names: str, sentence: str) -> None:
    with pytest.raises(NotConfiguredError, match=re.escape(sentence)) as caught:
        jobs_from_env({"ONCELY_JOBS": names})

    assert str(caught.value).startswith("ONCELY_JOBS ")
    assert "\n" not in str(caught.value)


def test_module_that_fails_to_import_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_jobs.py").write_text("raise RuntimeError('no\\nregion')")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(NotConfiguredError, match=r"\(RuntimeError: no region\)") as caught:
        import_jobs(["failing_jobs:Job"], source="here")

    assert isinstance(caught.value.__cause__, RuntimeError)


def local_contract() -> type[AnyJob]:
    class OnlyHere(PaymentCharge):
        job_type = "only.here"

    return OnlyHere


class MainContract(ReceiptSend):
    job_type = "main.contract"


MainContract.__module__ = "__main__"


@pytest.mark.parametrize(
    ("unimportable", "sentence"),
    [
        (local_contract(), "OnlyHere' cannot be imported by its name: define it at the top level"),
        (MainContract, "'__main__:MainContract' cannot be imported by its name"),
        ("oncely.jobs.payment_charge:PaymentCharge", "is not a job: use a subclass"),
    ],
)
def test_contract_that_no_function_can_import_gets_no_name(
    unimportable: object, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "MainContract", MainContract, raising=False)
    with pytest.raises(NotConfiguredError, match=sentence):
        name_jobs([unimportable])


OWN_JOBS = """
from oncely.jobs.receipt_send import ReceiptSend

class OwnReceipt(ReceiptSend):
    pass

JOBS = [OwnReceipt]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A team's project, not installed; the command runs in one of its folders."""
    (tmp_path / "own_jobs.py").write_text(OWN_JOBS)
    (tmp_path / "pyproject.toml").write_text('[tool.oncely]\njobs = ["own_jobs:JOBS"]\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "pyproject.toml").write_text("[tool.ruff]\n")
    monkeypatch.chdir(tmp_path / "docs")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("own_jobs", None)


def test_command_knows_the_jobs_of_the_nearest_project(project: Path) -> None:
    result = run_cli("contracts")

    assert "receipt.send (queue mail)" in result.stdout
    assert "payment.charge" not in result.stdout


def test_variable_overrides_the_project(project: Path) -> None:
    result = run_cli("contracts", ONCELY_JOBS=CHARGE)

    assert "payment.charge (queue payments)" in result.stdout
    assert "receipt.send" not in result.stdout


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("[tool.oncely]", "pyproject.toml does not list job types. Write `jobs = ["),
        ('[tool.oncely]\njobs = "own_jobs:JOBS"', "pyproject.toml does not list job types"),
        ("[tool.oncely", "Cannot read "),
        (
            '[tool.oncely]\njobs = ["own_jobs:OTHERS"]',
            "[tool.oncely] of pyproject.toml lists 'own_jobs:OTHERS', but own_jobs has no OTHERS",
        ),
    ],
)
def test_wrong_project_gets_one_sentence(project: Path, settings: str, sentence: str) -> None:
    (project / "pyproject.toml").write_text(settings)

    result = run_cli("contracts")

    assert result.exit_code != 0
    assert result.stdout == ""
    assert sentence in " ".join(result.stderr.split())


def test_completion_in_a_wrong_project_prints_nothing(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.oncely]")

    result = run_cli(
        _ONCELY_COMPLETE="complete_bash", COMP_WORDS="oncely contracts pay", COMP_CWORD="2"
    )

    assert (result.exit_code, result.stdout.strip(), result.stderr) == (0, "", "")
