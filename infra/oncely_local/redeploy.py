"""Brings a change in the code to a stack that is up, in seconds."""

import io
import zipfile
from dataclasses import replace

from oncely_cdk.packaging import list_shipped_files
from oncely_cdk.paths import FUNCTIONS
from oncely_local.account import STACK_NAME, LocalAccount
from oncely_local.deploy import cached_assembly, deploy
from oncely_local.source_digests import function_sources, source_digest, stack_sources
from oncely_local.state_file import RunningStack


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
        if one["FunctionName"].startswith(STACK_NAME)
    ]
    code = package_code()
    for function in ours:
        functions.update_function_code(FunctionName=function["FunctionName"], ZipFile=code)
    return len(ours)


def package_code() -> bytes:
    """What every function ships, as the CDK would pack it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in list_shipped_files():
            archive.write(path, path.relative_to(FUNCTIONS))
    return packed.getvalue()
