"""Mistakes of a team, and the sentence with which synthesis refuses each, as JSON."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aws_cdk import App, Duration, Stack
from aws_cdk import aws_sqs as sqs

from oncely_cdk import Oncely, OncelySettings, StageError, read_stage_file
from shop_jobs.customer_voucher import CustomerVoucher
from shop_jobs.voucher_issue import VoucherIssue

JOB = Path("shop_jobs/voucher_issue.py")
LOCK = Path("requirements-jobs.txt")
# Installed with pytest, and in no layer of Oncely.
PACKAGE = "iniconfig"
IDENTITY = """
[identity]
deployment = "k3j2h1g4f5d6s7a8"
archive_bucket = "shop-archive"
created = ["archive_bucket"]
[identity.tables]
jobs = "shop-jobs"
"""


def add_oncely(stack: Stack | None = None, name: str = "Jobs", **arguments: Any) -> None:  # noqa: ANN401  # of the construct
    """Add Oncely to a stack, with other arguments than the shop's."""
    defaults = {"jobs": (VoucherIssue,), "settings": OncelySettings(name="local")}
    Oncely(stack or Stack(App(), "Shop"), name, **{**defaults, **arguments})


@contextmanager
def changed(file: Path, text: str) -> Iterator[None]:
    """Change a file, and restore it."""
    before = file.read_text(encoding="utf-8") if file.exists() else None
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_text(before, encoding="utf-8")


def package_not_shipped() -> None:
    """The job imports a module beside its package."""
    with changed(Path("shop_common.py"), ""), changed(JOB, _importing("shop_common")):
        add_oncely()


def package_in_no_layer() -> None:
    """The job imports what is installed on this machine only."""
    with changed(JOB, _importing(PACKAGE)):
        add_oncely()


def conflicting_pin() -> None:
    """The lock has another version than the engine's layer."""
    with changed(LOCK, f"pydantic==2.5.0 --hash=sha256:{'0' * 64}\n"):
        add_oncely(requirements=LOCK)


def own_dead_letter_queue() -> None:
    """The shop's queue has a redrive policy."""
    stack = Stack(App(), "Shop")
    dead_letters = sqs.DeadLetterQueue(queue=sqs.Queue(stack, "Dead"), max_receive_count=3)
    add_oncely(stack, queues={"vouchers": sqs.Queue(stack, "Q", dead_letter_queue=dead_letters)})


def short_visibility() -> None:
    """A message of the shop's queue reappears while its job may run."""
    stack = Stack(App(), "Shop")
    queue = sqs.Queue(stack, "Orders", visibility_timeout=Duration.seconds(90))
    add_oncely(stack, queues={"vouchers": queue})


def two_constructs() -> None:
    """Two constructs are in one stack."""
    stack = Stack(App(), "Shop")
    add_oncely(stack)
    add_oncely(stack, "MoreJobs")


def missing_table() -> None:
    """A job reads a table that the stack does not have."""
    add_oncely(jobs=(CustomerVoucher,))


def changed_identity() -> None:
    """The setting for the job table was removed."""
    with changed(Path("stages/local.toml"), IDENTITY):
        add_oncely(settings=read_stage_file("stages/local.toml"))


def _importing(module: str) -> str:
    return f"{JOB.read_text(encoding='utf-8')}\nimport {module}\n"


def sentence(mistake: Callable[[], None]) -> str | None:
    """Return how a mistake is refused. Returns None if it is not."""
    try:
        mistake()
    except StageError as error:
        return str(error)
    return None


if __name__ == "__main__":
    mistakes = (
        *(package_not_shipped, package_in_no_layer, conflicting_pin, own_dead_letter_queue),
        *(short_visibility, two_constructs, missing_table, changed_identity),
    )
    json.dump({one.__name__: sentence(one) for one in mistakes}, sys.stdout)
