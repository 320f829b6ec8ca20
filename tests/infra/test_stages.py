"""Stages: their files, settings, defaults and validation."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app import build_app
from oncely.providers.stripe.plugin import STRIPE
from oncely_cdk import OncelySettings, StageError, read_stage_file
from oncely_cdk.paths import REPOSITORY


def stage(folder: Path, text: str, name: str = "dev") -> OncelySettings:
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return read_stage_file(file)


def test_file_sets_what_it_names_and_the_stage_the_rest(tmp_path: Path) -> None:
    read = stage(
        tmp_path,
        """
        alert_email = "ops@example.com"
        worker_timeout_seconds = 100
        accepted_risks = ["optional_mfa"]

        [existing_tables]
        orders = "shop-orders"

        [queue_worker_concurrency]
        payments = 3

        [provider_settings]
        stripe_lookups_per_second = 20
        """,
    )

    assert (read.name, read.alert_email) == ("dev", "ops@example.com")
    assert read.worker_timeout_seconds == 100
    assert read.existing_tables == {"orders": "shop-orders"}
    assert read.concurrency_for("payments") == 3
    assert read.concurrency_for("mail") == read.worker_concurrency
    assert read.provider_settings == {"stripe_lookups_per_second": "20"}
    assert read.log_retention_days == OncelySettings(name="dev").log_retention_days


def test_every_stage_but_dev_and_local_is_production() -> None:
    stages = [OncelySettings(name=name) for name in ("dev", "prod", "local", "live-eu")]
    kept = {one.name: (one.production, one.retain_data, one.requires_mfa) for one in stages}

    safe, free = (True, True, True), (False, False, False)
    assert kept == {"dev": free, "prod": safe, "local": free, "live-eu": safe}
    assert OncelySettings(name="qa", production=False).retain_data is False


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('alert_emial = "x"', "unknown key alert_emial; did you mean alert_email?"),
        ("zzz = 1", "unknown key zzz; use one of accepted_risks, access_log_retention_days, al"),
        ('name = "prod"', "unknown key name; use one of"),
        ('file = "x"', "unknown key file"),
        ('batch_size = "5"', "batch_size: Input should be a valid integer (it is '5')"),
        ("batch_size = 11", "batch_size: Input should be less than or equal to 10 (it is 11)"),
        ('dashboard = "true"', "dashboard: Input should be a valid boolean (it is 'true')"),
        ("alert_email = 1", "alert_email: Input should be a valid string (it is 1)"),
        ("existing_tables = 1", "existing_tables: "),
        ("existing_tables = { orders = 1 }", "existing_tables.orders: Input should be a valid st"),
        ("provider_settings = { a = [] }", "provider_settings.a: Input should be a valid string"),
        ("worker_concurrency = 1", "worker_concurrency: Input should be greater"),
        ("table_retention_days = { a = 0 }", "table_retention_days.a: Input should be greater"),
        ("table_retention_days = { a = 36501 }", "Input should be less than or equal to 36500"),
        ("rejects_retention_days = 0", "rejects_retention_days: Input should be greater"),
        ("write_capacity_units = 5", "provisioned capacity needs read_capacity_units and write_ca"),
        ('second_operator_above = "50000"', "such as eur:50000,usd:600"),
        ("[identity]\ndeploymnt = 1", "unknown key identity.deploymnt; did you mean deployment?"),
        ("batch_size =", "not valid TOML: Invalid value"),
    ],
)
def test_fault_names_file_and_key(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(StageError) as caught:
        stage(tmp_path, text)

    assert str(caught.value).startswith(f"{tmp_path / 'dev.toml'}: ")
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value", "fault"),
    [
        ("effects_per_second", "-25", "a rate is from 0.001 to 10000 a second, or inf for none"),
        ("lookups_per_second", "1e300", "a rate is from 0.001 to 10000 a second, or inf for none"),
        ("lookups_per_second", "many", "Input should be a valid number"),
    ],
)
def test_limit_that_no_gate_can_hold_is_refused(setting: str, value: str, fault: str) -> None:
    stage = OncelySettings(name="dev", provider_settings={f"stripe_{setting}": value})
    with pytest.raises(StageError) as caught:
        stage.settings_of(STRIPE)
    assert f"provider_settings.stripe_{setting}: " in str(caught.value)
    assert fault in str(caught.value)


def test_stage_without_file_names_the_stages_that_have_one(tmp_path: Path) -> None:
    stage(tmp_path, "", "dev"), stage(tmp_path, "", "prod")

    with pytest.raises(StageError, match=r"no stage 'qa': create .* have one \(dev, prod\)$"):
        read_stage_file(tmp_path / "qa.toml")
    with pytest.raises(StageError, match="name: String should match pattern"):
        stage(tmp_path, "", "my stage")


def test_app_reads_the_file_of_the_stage_and_ignores_other_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "live-eu.toml").write_text("batch_size = 99", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(StageError, match=r"^stages/live-eu.toml: batch_size: "):
        build_app(context={"stage": "live-eu", "batch_size": "1", "vpc_id": "vpc-1"})
    with pytest.raises(StageError, match=r"^stages/dev.toml does not exist"):
        build_app()


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_shipped_files_are_valid(name: str) -> None:
    assert read_stage_file(REPOSITORY / "stages" / f"{name}.toml").name == name


def test_stage_is_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        OncelySettings(name="dev").worker_timeout_seconds = 1  # type: ignore[misc]  # this is what must not work


def test_constructor_takes_no_text_for_a_number() -> None:
    values: dict[str, Any] = {"batch_size": "5"}
    with pytest.raises(ValidationError, match="batch_size"):
        OncelySettings(name="dev", **values)
