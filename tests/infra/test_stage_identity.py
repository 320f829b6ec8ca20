"""The identity of a deployed stage: written once, kept by synthesis and by every deployment."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template

from oncely.jobs.payment_charge import PaymentCharge
from oncely_cdk import OncelyStack, StageError, read_stage_file, stage_file
from oncely_cdk.stage_file import IDENTITY_OUTPUT, record_identity
from oncely_cdk.stages import StageIdentity
from tests.infra.assembly import Assembly

STREAM: Final = "arn:aws:dynamodb:eu-west-1:123456789012:table/shop-jobs/stream/2026"
IDENTITY: Final[dict[str, Any]] = {
    "deployment": "k3j2h1g4f5d6s7a8",
    "archive_bucket": "oncely-archive-1",
    "created": ["archive_bucket", "tables.jobs"],
    "tables": {"jobs": "Oncely-prod-Jobs-1", "orders": "shop-orders"},
}
FILE: Final = """\
# Our own comment.
alert_email = "ops@example.com"

[existing_tables]
orders = "shop-orders"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "prod.toml"
    file.write_text(FILE, encoding="utf-8")
    return file


def outputs(**changes: object) -> dict[str, str]:
    return {"JobsTableName": "x", IDENTITY_OUTPUT: json.dumps({**IDENTITY, **changes})}


def synthesize(file: Path) -> OncelyStack:
    return OncelyStack(App(), "Shop", jobs=[PaymentCharge], settings=read_stage_file(file))


def test_first_deployment_writes_identity_and_keeps_the_file(file: Path) -> None:
    assert record_identity(file, outputs())

    text = file.read_text(encoding="utf-8")
    assert text.startswith(FILE)
    read = read_stage_file(file)
    assert read.identity == StageIdentity.model_validate(IDENTITY)
    assert read.existing_tables == {"orders": "shop-orders"}
    assert not record_identity(file, outputs())
    assert file.read_text(encoding="utf-8") == text


def test_later_deployment_adds_tables_and_changes_none(file: Path) -> None:
    record_identity(file, outputs())
    later = {"jobs": "another", "orders": "another", "records": "Oncely-prod-Records-1"}
    # A section that someone added after ours stays, too.
    with file.open("a", encoding="utf-8") as text:
        text.write("[provider_settings]\nses_sender_address = 'a@b.c'\n")

    assert record_identity(
        file, outputs(deployment="other", tables=later, created=["tables.records"])
    )

    read = read_stage_file(file)
    assert read.identity is not None
    assert read.identity.deployment == IDENTITY["deployment"]
    assert read.identity.tables == {**later, **IDENTITY["tables"]}
    assert "tables.records" in read.identity.created
    assert read.provider_settings == {"ses_sender_address": "a@b.c"}
    assert file.read_text(encoding="utf-8").count("Written by the first deployment") == 1


def test_table_without_identity_item_is_not_recorded(file: Path) -> None:
    assert not record_identity(file, outputs(deployment=""))
    assert file.read_text(encoding="utf-8") == FILE


def test_file_that_would_change_is_not_written(file: Path) -> None:
    file.write_text(FILE + '[identity]\nruns = """\n[other]\n"""\n', encoding="utf-8")
    with pytest.raises(StageError, match="identity"):
        record_identity(file, outputs())


def test_command_writes_from_the_outputs_of_the_cdk(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "outputs.json"
    saved.write_text(json.dumps({"Site": {"Url": "x"}, "Shop": outputs()}), encoding="utf-8")

    stage_file.main([str(file), str(saved)])

    assert "Commit it." in capsys.readouterr().out
    assert read_stage_file(file).identity is not None
    saved.write_text(json.dumps({"Shop": outputs(), "Other": outputs()}), encoding="utf-8")
    with pytest.raises(SystemExit, match="2 stacks with Oncely: deploy one stage at a time"):
        stage_file.main([str(file), str(saved)])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('orders = "shop-orders"\n\n', "\n", "identity.tables.orders would change from shop-orde"),
        ('orders = "shop-orders"\n\n', 'orders = "typo"\n\n', "from shop-orders to typo, which"),
        (
            "[existing_tables]",
            f'jobs_stream_arn = "{STREAM}"\n[existing_tables]\njobs = "shop-jobs"',
            'set existing_tables.jobs = "Oncely-prod-Jobs-1", or change .identity. if the data has',
        ),
        (
            "[existing_tables]",
            'existing_archive_bucket = "other"\n[existing_tables]',
            'from oncely-archive-1 to other, .*: set existing_archive_bucket = "oncely-archive-1"',
        ),
        ('"archive_bucket", ', "", "identity.archive_bucket would change .* to a new, empty one"),
    ],
    ids=["forgotten", "renamed", "job table", "archive", "forgotten archive"],
)
def test_changed_identity_is_refused_at_synth(
    file: Path, old: str, new: str, sentence: str
) -> None:
    record_identity(file, outputs())
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")

    with pytest.raises(StageError, match=sentence) as caught:
        synthesize(file)

    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_retained_resources_are_attached_again(file: Path) -> None:
    record_identity(file, outputs())
    text = file.read_text(encoding="utf-8")
    again = f"""jobs_stream_arn = "{STREAM}"
existing_archive_bucket = "oncely-archive-1"
[existing_tables]
jobs = "Oncely-prod-Jobs-1"
"""
    file.write_text(text.replace("[existing_tables]\n", again), encoding="utf-8")

    stack = synthesize(file)

    assert not stack.oncely.shared.archive.is_created
    assert stack.oncely.shared.archive.name == "oncely-archive-1"


def test_deployment_alone_is_expected_of_an_existing_job_table(file: Path) -> None:
    given = f"""jobs_stream_arn = "{STREAM}"
[existing_tables]
jobs = "Oncely-prod-Jobs-1"
"""
    identity = '[identity]\ndeployment = "k3j2h1g4f5d6s7a8"\n'
    text = FILE.replace("[existing_tables]\n", given) + identity
    file.write_text(text, encoding="utf-8")

    assert identity_check(synthesize(file))["Expected"] == {"deployment": "k3j2h1g4f5d6s7a8"}

    assert record_identity(file, outputs(deployment="other"))
    read = read_stage_file(file).identity
    assert read is not None
    assert (read.deployment, read.archive_bucket) == ("k3j2h1g4f5d6s7a8", "oncely-archive-1")


def test_every_function_waits_for_the_check(prod: Assembly) -> None:
    (check,) = (
        name for name, one in prod.resources.items() if one["Type"] == "Custom::OncelyIdentity"
    )
    waiting = {
        path.removesuffix("/Function"): check in one.get("DependsOn", [])
        for path, one in prod.of_type("AWS::Lambda::Function").items()
    }

    assert waiting.pop("FirstSetup/SetUp") is False
    assert len(waiting) > 5
    assert all(waiting.values()), waiting


def identity_check(stack: OncelyStack) -> dict[str, Any]:
    template = Template.from_stack(stack).find_resources("Custom::OncelyIdentity")
    (check,) = template.values()
    found: dict[str, Any] = check["Properties"]
    return found


def test_check_gets_the_names_and_what_the_file_expects(file: Path) -> None:
    record_identity(file, outputs())

    check = identity_check(synthesize(file))

    assert check["Expected"] == {
        "deployment": "k3j2h1g4f5d6s7a8",
        "archive_bucket": "oncely-archive-1",
        "tables.jobs": "Oncely-prod-Jobs-1",
        "tables.orders": "shop-orders",
    }
    names = {"archive_bucket", "tables.gates", "tables.jobs", "tables.orders"}
    assert set(check["Names"]) == names
    assert check["Names"]["tables.orders"] == "shop-orders"
