"""The running local stack, as other terminals find it, and its redeployment in seconds."""

import contextlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from oncely_cdk.packaging import engine_files
from oncely_local.account import LocalAccount
from oncely_local.deploy import (
    cached_assembly,
    deploy,
    function_sources,
    source_digest,
    stack_sources,
)
from oncely_local.engine import ACCOUNT, REGION
from oncely_local.project import local_project
from oncely_local.stack import LocalStack

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

# Part of the layer's name, which is made from its construct's path.
ENGINE_LAYER: Final = "LayersEngine"


@dataclass(frozen=True, kw_only=True)
class RunningStack:
    """A running stack, as .build/local.json describes it to other processes."""

    pid: int  # the process that owns the stack
    endpoint: str
    providers: str
    outputs: Mapping[str, str]
    code: str  # digests of what is deployed
    shape: str
    stack: str
    region: str = REGION
    account: str = ACCOUNT

    @classmethod
    def find(cls) -> Self | None:
        try:
            found = cls(**json.loads(local_project().state_file.read_text(encoding="utf-8")))
            os.kill(found.pid, 0)
        except (OSError, ValueError, TypeError):
            return None
        return found

    def write(self) -> None:
        file = local_project().state_file
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        scratch.replace(file)


@contextlib.contextmanager
def advertised(stack: LocalStack) -> Iterator[None]:
    """Make `oncely … --local` find the stack, unless it finds that of another process."""
    if RunningStack.find():
        yield
        return
    code, shape = source_digests()
    running = RunningStack(
        pid=os.getpid(),
        endpoint=stack.engine.url,
        providers=stack.sandbox.url,
        outputs=stack.outputs,
        code=code,
        shape=shape,
        stack=stack.account.stack_name,
    )
    running.write()
    try:
        yield
    finally:
        local_project().state_file.unlink(missing_ok=True)


def redeploy(running: RunningStack) -> tuple[RunningStack, str]:
    """Redeploy what changed, without the CDK if only code did. Returns what was done."""
    code, shape = source_digests()
    after = replace(running, code=code, shape=shape)
    if shape != running.shape:
        account = deploy(running.endpoint, cached_assembly(), providers=running.providers)
        account.put_secrets(local_project().secrets)
        after = replace(after, outputs=account.outputs())
        return after, "The stack changed and was deployed with the CDK."
    if code == running.code:
        return running, "Nothing changed."
    updated = update_engine(LocalAccount(running.endpoint, running.stack))
    return after, f"Updated the code of {updated} functions."


def source_digests() -> tuple[str, str]:
    """The current digests of the functions' code and of the stack."""
    return source_digest(function_sources()), source_digest(stack_sources())


def update_engine(account: LocalAccount) -> int:
    """Give every function the current engine without the CDK. Returns their number."""
    functions = account.client("lambda")
    pages = functions.get_paginator("list_functions").paginate()
    listed = [one for page in pages for one in page["Functions"]]
    ours = [one for one in listed if one["FunctionName"].startswith(account.stack_name)]
    (name,) = {
        layer["Arn"].split(":")[-2]
        for one in ours
        for layer in one["Layers"]
        if ENGINE_LAYER in layer["Arn"]
    }
    layer = functions.publish_layer_version(LayerName=name, Content={"ZipFile": package_engine()})
    for one in ours:
        others = [layer["Arn"] for layer in one["Layers"] if ENGINE_LAYER not in layer["Arn"]]
        functions.update_function_configuration(
            FunctionName=one["FunctionName"], Layers=[*others, layer["LayerVersionArn"]]
        )
        publish(functions, one["FunctionName"])
    return len(ours)


def publish(functions: "LambdaClient", name: str) -> None:
    """Publish what a function is now, and let its event source mappings call it."""
    version = functions.publish_version(FunctionName=name)["Version"]
    for alias in functions.list_aliases(FunctionName=name)["Aliases"]:
        functions.update_alias(FunctionName=name, Name=alias["Name"], FunctionVersion=version)


def package_engine() -> bytes:
    """Zip the engine's layer as the CDK does."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in engine_files().items():
            archive.write(path, name)
    return packed.getvalue()
