"""A job's own settings: from the stage's file or the stack, for functions and commands."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_s3 as s3

from oncely.cli.stack_environment import stack_environment
from oncely_cdk import Oncely, OncelySettings, StageError
from tests.infra.assembly import CONTEXT, Assembly
from tests.infra.other_teams import VOUCHERS, own_package

SETTINGS: Final = OncelySettings(name="dev", existing_tables={"customers": "customers"})
DECLARED: Final = """

from typing import Annotated

from pydantic import Field

from oncely import JobSettings


class VoucherSettings(JobSettings):
    voucher_template: Annotated[str, Field(pattern=r"^t_\\d+$")]
    voucher_bucket: Annotated[str, Field(pattern=r"^[a-z-]+$")] = "vouchers"
    voucher_api_base: str = "https://vouchers.example.com"
    voucher_pages: Annotated[int, Field(ge=1)] = 1


VoucherIssue.settings = VoucherSettings
"""

Build = Callable[..., Stack]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("shop")
    with own_package(folder, "shop_jobs", VOUCHERS + DECLARED) as module:
        yield module


def build(jobs: Any, app: App | None = None, **given: Any) -> Stack:  # noqa: ANN401  # of the CDK
    stack = Stack(app or App(), "Shop")
    settings = SETTINGS.model_copy(update={"job_settings": given.pop("job_settings", {})})
    if given.pop("with_bucket", False):
        given["environment"] = {
            **given.get("environment", {}),
            "VOUCHER_BUCKET": s3.Bucket(stack, "Own").bucket_name,
        }
    Oncely(stack, "Jobs", jobs=[jobs.VoucherIssue], settings=settings, **given)
    return stack


def test_functions_and_command_get_declared_settings(jobs: Any, tmp_path: Path) -> None:  # noqa: ANN401  # a module
    app = App(
        outdir=str(tmp_path),
        context=CONTEXT,
        analytics_reporting=False,
    )
    given = {"voucher_template": "t_7", "voucher_pages": "3"}
    build(jobs, app, job_settings=given, environment={"OTHER": "x"}, with_bucket=True)
    app.synth()
    shop = Assembly(tmp_path, "Shop")

    with_jobs = [one for one in shop.functions.values() if "ONCELY_JOBS" in one.variables]
    assert len(with_jobs) > 4
    for function in with_jobs:
        assert function.variables["VOUCHER_TEMPLATE"] == "t_7"
        assert function.variables["OTHER"] == "x"
        assert "VOUCHER_BUCKET" in function.variables
    finish = shop.functions["Jobs/Reconciler/Finish"].variables
    assert not [name for name in finish if name.startswith("VOUCHER_")]
    outputs = {name: str(one["Value"]) for name, one in shop.template["Outputs"].items()}
    assert "OtherSetting" not in outputs, "not declared"
    found = stack_environment(outputs, {}, (jobs.VoucherIssue,))
    assert (found["VOUCHER_TEMPLATE"], found["VOUCHER_PAGES"]) == ("t_7", "3")
    assert "VOUCHER_BUCKET" in found


TEMPLATE: Final = {"voucher_template": "t_7"}
REFUSED: Final[dict[str, dict[str, Any]]] = {
    "job_settings.voucher_template of VoucherSettings: Field required": {},
    "job_settings.voucher_template of VoucherSettings: String should match": {
        "job_settings": {"voucher_template": "seven"}
    },
    "job_settings.voucher_pages of VoucherSettings: Input should be a valid integer": {
        "job_settings": {**TEMPLATE, "voucher_pages": "many"}
    },
    "job_settings has voucher_page, which no job uses; did you mean voucher_pages?": {
        "job_settings": {**TEMPLATE, "voucher_page": "1"}
    },
    "job_settings.voucher_template is in `environment`, too, as VOUCHER_TEMPLATE: use one": {
        "job_settings": TEMPLATE,
        "environment": {"VOUCHER_TEMPLATE": "t_8"},
    },
    "voucher_template of VoucherSettings: Field required": {"with_bucket": True},
    "of them for NOTES, but Lambda allows 4096: shorten values": {
        "job_settings": TEMPLATE,
        "environment": {"NOTES": "x" * 3900},
    },
}


@pytest.mark.parametrize(("sentence", "given"), REFUSED.items())
def test_wrong_settings_are_refused_at_synthesis(
    jobs: Any,  # noqa: ANN401  # a module
    sentence: str,
    given: dict[str, Any],
) -> None:
    with pytest.raises(StageError) as caught:
        build(jobs, **given)

    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_setting_may_come_from_the_environment(jobs: Any) -> None:  # noqa: ANN401  # a module
    build(jobs, environment={"VOUCHER_TEMPLATE": "t_7"})


def test_field_that_hides_a_variable_of_oncely_is_refused(tmp_path: Path) -> None:
    hiding = DECLARED.replace("voucher_api_base", "queue_url")
    with (
        own_package(tmp_path, "hiding_jobs", VOUCHERS + hiding) as module,
        pytest.raises(StageError, match="read from QUEUE_URL, which Oncely sets itself: rename"),
    ):
        build(module, job_settings=TEMPLATE)
