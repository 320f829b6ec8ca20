"""The running local stack, as other terminals find it, and its redeployment in seconds."""

import contextlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Self

from oncely_cdk.packaging import list_shipped_files
from oncely_cdk.paths import FUNCTIONS, REPOSITORY
from oncely_local.account import STACK_NAME, LocalAccount
from oncely_local.deploy import (
    cached_assembly,
    deploy,
    function_sources,
    source_digest,
    stack_sources,
)
from oncely_local.engine import ACCOUNT, REGION

STATE_FILE: Final = REPOSITORY / ".build" / "local.json"


@dataclass(frozen=True, kw_only=True)
class RunningStack:
    """A running stack, as .build/local.json describes it to other processes."""

    pid: int  # the process that owns the stack
    endpoint: str
    providers: str
    outputs: Mapping[str, str]
    code: str  # digests of what is deployed
    shape: str
    stack: str = STACK_NAME
    region: str = REGION
    account: str = ACCOUNT

    @classmethod
    def find(cls, file: Path = STATE_FILE) -> Self | None:
        try:
            found = cls(**json.loads(file.read_text(encoding="utf-8")))
            os.kill(found.pid, 0)
        except (OSError, ValueError, TypeError):
            return None
        return found

    def write(self, file: Path = STATE_FILE) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        scratch.replace(file)


@contextlib.contextmanager
def advertise(running: RunningStack, file: Path = STATE_FILE) -> Iterator[None]:
    """Let other processes find the stack while the block runs."""
    running.write(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def redeploy(running: RunningStack) -> tuple[RunningStack, str]:
    """Redeploy what changed, without the CDK if only code did. Returns what was done."""
    code, shape = source_digests()
    after = replace(running, code=code, shape=shape)
    if shape != running.shape:
        deploy(running.endpoint, cached_assembly(), providers=running.providers)
        account = LocalAccount(running.endpoint)
        account.put_provider_secrets()
        after = replace(after, outputs=account.outputs())
        return after, "The stack changed and was deployed with the CDK."
    if code == running.code:
        return running, "Nothing changed."
    updated = update_function_code(LocalAccount(running.endpoint))
    return after, f"Updated the code of {updated} functions."


def source_digests() -> tuple[str, str]:
    """The current digests of the functions' code and of the stack."""
    return source_digest(function_sources()), source_digest(stack_sources())


def update_function_code(account: LocalAccount) -> int:
    """Update the code of every function without the CDK. Returns their number."""
    functions = account.client("lambda")
    pages = functions.get_paginator("list_functions").paginate()
    names = [one["FunctionName"] for page in pages for one in page["Functions"]]
    ours, code = [name for name in names if name.startswith(STACK_NAME)], package_code()
    for name in ours:
        functions.update_function_code(FunctionName=name, ZipFile=code)
    return len(ours)


def package_code() -> bytes:
    """Zip the shipped files as the CDK does."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in list_shipped_files():
            archive.write(path, path.relative_to(FUNCTIONS))
    return packed.getvalue()
