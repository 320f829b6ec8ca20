"""What an application that sends jobs gets when it installs the package."""

import subprocess
import sys
from importlib import resources

NOT_FOR_PRODUCERS = {"aws_lambda_powertools", "hubspot", "rich", "stripe", "typer"}


def test_the_types_of_the_package_are_seen_by_the_type_checker_of_its_users() -> None:
    assert resources.files("oncely").joinpath("py.typed").is_file()


def test_a_producer_imports_nothing_that_only_the_command_or_a_worker_needs() -> None:
    look = (
        "import sys, oncely.adapters.producer; "
        f"print(*({NOT_FOR_PRODUCERS} & set(sys.modules)), sep='')"
    )
    told = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == ""
