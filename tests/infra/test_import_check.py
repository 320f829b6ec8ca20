"""What a team's jobs need and functions would not have is refused at synthesis."""

import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aws_cdk import App

from oncely_cdk import OncelySettings, OncelyStack, StageError, layers
from oncely_cdk.layers import JOB_PACKAGES, layers_for
from tests.infra.other_teams import VOUCHERS, own_package

SETTINGS: Final = OncelySettings(name="dev", existing_tables={"customers": "customers"})
HASH: Final = f"--hash=sha256:{'0' * 64}"


@pytest.fixture
def synthesize(tmp_path: Path) -> Iterator[Any]:
    """Synthesize the voucher job with a line before its source, and a lock."""
    packages: list[Any] = []

    def run(line: str = "", *, lock: str | None = None, **arguments: Any) -> OncelyStack:  # noqa: ANN401  # of the stack
        package = own_package(tmp_path, "shop_jobs", f"{line}\n{VOUCHERS}")
        packages.append(package)
        jobs = [package.__enter__().VoucherIssue]
        if lock is not None:
            arguments["requirements"] = tmp_path / "requirements-jobs.txt"
            arguments["requirements"].write_text(lock, encoding="utf-8")
            for target in layers.TARGETS.values():
                layer = layers_for(target, jobs=arguments["requirements"])[JOB_PACKAGES]
                zipfile.ZipFile(layer.archive, "w").close()
        return OncelyStack(App(), "Shop", jobs=jobs, settings=SETTINGS, **arguments)

    yield run
    for package in packages:
        package.__exit__(None, None, None)


@pytest.fixture
def shop_common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of the team beside that of its jobs."""
    (tmp_path / "shop_common").mkdir()
    (tmp_path / "shop_common" / "__init__.py").touch()
    yield
    sys.modules.pop("shop_common", None)
    importlib.invalidate_caches()


def test_job_with_packages_of_the_runtime_is_accepted(synthesize: Any) -> None:  # noqa: ANN401  # a function
    synthesize("import boto3, pydantic, json; print('imported')")


@pytest.mark.usefixtures("shop_common")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "import hypothesis",
            "the job voucher.issue imports hypothesis, which is in no layer: add hypothesis to req",
        ),
        (
            "import shop_common",
            r"imports shop_common, which is not shipped: .* the packages of the jobs \(shop_jobs\)",
        ),
        ("import oncely.testing", "imports oncely.testing, which is not shipped: it is for tests"),
        ("import stripe", "imports stripe, which is in no layer"),
    ],
)
def test_package_that_functions_lack_is_refused(
    synthesize: Any,  # noqa: ANN401  # a function
    line: str,
    sentence: str,
) -> None:
    with pytest.raises(StageError, match=sentence) as caught:
        synthesize(line)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("variable", ["SHOP", "OTHER"])
def test_import_sees_only_the_variables_of_the_stack(
    synthesize: Any,  # noqa: ANN401  # a function
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    monkeypatch.setenv("SHOP", "1")
    line, environment = "import os; os.environ['SHOP']", {variable: "1"}
    if variable == "SHOP":
        synthesize(line, environment=environment)
        return

    with pytest.raises(StageError, match=r"cannot be imported as on Lambda \(KeyError: 'SHOP'\)"):
        synthesize(line, environment=environment)


@pytest.mark.parametrize(
    ("lock", "sentence"),
    [
        (
            f"pydantic==2.5.0 {HASH}\n",
            "requirements-jobs.txt pins pydantic 2.5.0, but the layer 'runtime' of the same func",
        ),
        ("requests==2.30\n", "has requests==2.30 without a hash: run `oncely lock`"),
        (f"--index-url https://pypi.example.com\na==1 {HASH}\n", "names a package index, which is"),
    ],
)
def test_lock_that_does_not_fit_is_refused(
    synthesize: Any,  # noqa: ANN401  # a function
    lock: str,
    sentence: str,
) -> None:
    with pytest.raises(StageError, match=sentence) as caught:
        synthesize(lock=lock)

    assert "\n" not in str(caught.value)


def test_lock_that_does_not_exist_is_refused(synthesize: Any, tmp_path: Path) -> None:  # noqa: ANN401  # a function
    with pytest.raises(StageError, match=r"names gone.txt, which does not exist: run `oncel"):
        synthesize(requirements=tmp_path / "gone.txt")


def test_equal_pin_and_pin_of_an_unused_layer_are_accepted(synthesize: Any) -> None:  # noqa: ANN401  # a function
    (runtime,) = [
        line.split()[0]
        for line in layers.REQUIREMENTS.joinpath("layer-runtime.txt").read_text().splitlines()
        if line.startswith("pydantic==")
    ]
    synthesize(lock=f"{runtime} \\\n    {HASH}\nstripe==1.0 {HASH}\n")
