"""A function starts only with the engine and the job code that it was deployed with."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from oncely.app import app_from_env
from oncely.aws.code_stamp import STAMP_FILE, check_engine_stamp, check_job_stamp, digest_modules
from oncely.core.errors import NotConfiguredError

STAMP = "a" * 64
OTHER = "b" * 64
REFUSED = r"of this function is \w{12}, but its configuration is of aaaaaaaaaaaa: wait until"


def put_stamp(folder: Path, stamp: str) -> None:
    (folder / STAMP_FILE).write_text(stamp, encoding="utf-8")


@pytest.fixture
def own_jobs(tmp_path: Path) -> Iterator[ModuleType]:
    """A module of a team's own function, whose code has no stamp."""
    module = ModuleType("shop_jobs.vouchers")
    module.__file__ = str(tmp_path / "vouchers.py")
    (tmp_path / "vouchers.py").write_text("AMOUNT = 1\n", encoding="utf-8")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_code_of_the_same_deployment_starts(tmp_path: Path) -> None:
    put_stamp(tmp_path, STAMP)

    check_engine_stamp(STAMP, layer=tmp_path)
    check_job_stamp(STAMP, code=tmp_path, modules=())


def test_code_that_no_stack_deployed_starts(tmp_path: Path) -> None:
    check_engine_stamp(None, layer=tmp_path)
    check_job_stamp(None, code=tmp_path, modules=())


def test_code_of_another_deployment_does_not_start(tmp_path: Path) -> None:
    put_stamp(tmp_path, OTHER)

    with pytest.raises(NotConfiguredError, match=f"the engine {REFUSED}"):
        check_engine_stamp(STAMP, layer=tmp_path)
    with pytest.raises(NotConfiguredError, match=f"the job code {REFUSED}"):
        check_job_stamp(STAMP, code=tmp_path, modules=())


def test_code_that_was_uploaded_by_hand_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(NotConfiguredError, match="the engine of this function is not stamped, but"):
        check_engine_stamp(STAMP, layer=tmp_path)
    with pytest.raises(NotConfiguredError, match=f"the job code {REFUSED}"):
        check_job_stamp(STAMP, code=tmp_path, modules=())


def test_own_function_starts_only_with_the_jobs_of_its_deployment(
    own_jobs: ModuleType, tmp_path: Path
) -> None:
    stamp = digest_modules([own_jobs.__name__])
    check_job_stamp(stamp, code=tmp_path, modules=[own_jobs.__name__])

    (tmp_path / "vouchers.py").write_text("AMOUNT = 2\n", encoding="utf-8")
    with pytest.raises(NotConfiguredError, match="the job code of this function is"):
        check_job_stamp(stamp, code=tmp_path, modules=[own_jobs.__name__])


@pytest.mark.parametrize(("variable", "part"), [("ENGINE", "engine"), ("JOB", "job code")])
def test_every_handler_checks_before_it_builds_a_service(
    tmp_path: Path, variable: str, part: str
) -> None:
    environ = {f"{variable}_STAMP": STAMP, "LAMBDA_TASK_ROOT": str(tmp_path), "JOBS_TABLE": "jobs"}
    with pytest.raises(NotConfiguredError, match=f"the {part} of this function is"):
        app_from_env(environ)
