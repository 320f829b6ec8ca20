"""Brings a change in the code to a stack that is up, in seconds."""

import io
import zipfile
from dataclasses import replace

from infra import FUNCTIONS
from infra.local.account import STACK_NAME, LocalAccount
from infra.local.deploy import cached_assembly, deploy
from infra.local.sources import function_sources, source_digest, stack_sources
from infra.local.state import RunningStack
from infra.shipped import list_shipped_files


def redeploy(running: RunningStack) -> tuple[RunningStack, str]:
    """Deploy what changed, the quick way if it is code alone; gives what was done."""
    code, shape = source_digests()
    after = replace(running, code=code, shape=shape)
    if shape != running.shape:
        deploy(running.endpoint, cached_assembly(), providers=running.providers)
        account = LocalAccount(running.endpoint)
        account.put_provider_secrets()
        return replace(after, outputs=account.outputs()), "the stack changed: deployed with the CDK"
    if code == running.code:
        return running, "nothing changed"
    updated = update_function_code(LocalAccount(running.endpoint))
    return after, f"the code of {updated} functions was replaced"


def source_digests() -> tuple[str, str]:
    """Of the functions' code, and of what shapes the stack, as they lie here now."""
    return source_digest(function_sources()), source_digest(stack_sources())


def update_function_code(account: LocalAccount) -> int:
    """Give every function its code as it lies here, without the CDK; tells how many."""
    functions = account.client("lambda")
    pages = functions.get_paginator("list_functions").paginate()
    ours = [
        one
        for page in pages
        for one in page["Functions"]
        if _is_stack_function(one["FunctionName"])
    ]
    updated = 0
    for function in ours:
        entry = function["Handler"].partition(".")[0]
        if (FUNCTIONS / entry / "handler.py").is_file():
            name = function["FunctionName"]
            functions.update_function_code(FunctionName=name, ZipFile=package_code(entry))
            updated += 1
    return updated


def package_code(entry: str) -> bytes:
    """What the function of functions/<entry>/ ships, as the CDK would pack it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in list_shipped_files(entry):
            archive.write(path, path.relative_to(FUNCTIONS))
    return packed.getvalue()


def _is_stack_function(name: str) -> bool:
    return name.startswith(STACK_NAME)
