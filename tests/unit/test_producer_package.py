"""What an application that sends jobs gets when it installs the package."""

import subprocess
import sys
from importlib import resources

from infra import REPOSITORY

NOT_FOR_PRODUCERS = {"aws_lambda_powertools", "hubspot", "rich", "stripe", "typer"}


def test_the_types_of_the_package_are_seen_by_the_type_checker_of_its_users() -> None:
    assert resources.files("oncely").joinpath("py.typed").is_file()


def test_a_producer_imports_nothing_that_only_the_command_or_a_worker_needs() -> None:
    look = (
        "import sys, oncely.adapters.producer; "
        f"print(*({NOT_FOR_PRODUCERS} & set(sys.modules)), sep='')"
    )

    told = python(look)

    assert (told.returncode, told.stdout) == (0, "\n")


def test_the_command_says_what_it_lacks_where_only_a_producer_is_installed() -> None:
    told = python(
        "import sys; sys.modules['typer'] = None; import ops_cli.__main__ as it; it.start()"
    )

    assert told.returncode == 1
    assert told.stderr.startswith("The package typer is not installed")
    assert '".[command]"' in told.stderr


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{REPOSITORY}/functions"},
        capture_output=True,
        text=True,
        check=False,
    )
