"""Brings a change in the code to a stack that is up, in seconds."""

import io
import zipfile
from dataclasses import replace

from infra import FUNCTIONS
from infra.local.account import STACK, Account
from infra.local.deploy import assembly_of_stack, deploy
from infra.local.sources import code_files, digest, stack_files
from infra.local.state import Running
from infra.shipped import shipped


def redeploy(running: Running) -> tuple[Running, str]:
    """Deploy what changed, the quick way if it is code alone; gives what was done."""
    code, shape = digests()
    after = replace(running, code=code, shape=shape)
    if shape != running.shape:
        deploy(running.endpoint, assembly_of_stack(), providers=running.providers)
        account = Account(running.endpoint)
        account.fill_secrets()
        return replace(after, outputs=account.outputs()), "the stack changed: deployed with the CDK"
    if code == running.code:
        return running, "nothing changed"
    updated = update_code(Account(running.endpoint))
    return after, f"the code of {updated} functions was replaced"


def digests() -> tuple[str, str]:
    """Of the functions' code, and of what shapes the stack, as they lie here now."""
    return digest(code_files()), digest(stack_files())


def update_code(account: Account) -> int:
    """Give every function its code as it lies here, without the CDK; tells how many."""
    functions = account.client("lambda")
    pages = functions.get_paginator("list_functions").paginate()
    ours = [one for page in pages for one in page["Functions"] if _is_ours(one["FunctionName"])]
    updated = 0
    for function in ours:
        entry = function["Handler"].partition(".")[0]
        if (FUNCTIONS / entry / "handler.py").is_file():
            name = function["FunctionName"]
            functions.update_function_code(FunctionName=name, ZipFile=code_of(entry))
            updated += 1
    return updated


def code_of(entry: str) -> bytes:
    """What the function of functions/<entry>/ ships, as the CDK would pack it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in shipped(entry):
            archive.write(path, path.relative_to(FUNCTIONS))
    return packed.getvalue()


def _is_ours(name: str) -> bool:
    return name.startswith(STACK)
