"""Event source mappings call a published version, so code, layers and variables change together."""

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_lambda as lambda_

from oncely.aws.code_stamp import STAMP_FILE
from oncely.jobs.payment_charge import PaymentCharge
from oncely_cdk import Oncely, OncelySettings
from oncely_cdk.job_function import LIVE
from oncely_cdk.layers import JOB_PACKAGES, ON_LAMBDA, layers_for
from tests.infra.assembly import CONTEXT, Assembly

WORKER = "Jobs/PaymentsWorker/Worker"


def test_every_mapping_calls_the_alias_of_a_published_version(prod: Assembly) -> None:
    aliases = prod.of_type("AWS::Lambda::Alias")
    versions = {id_ for id_, one in prod.resources.items() if one["Type"] == "AWS::Lambda::Version"}
    for path, mapping in prod.properties("AWS::Lambda::EventSourceMapping").items():
        role = path.removesuffix("/Live/Messages").removesuffix("/Stream")
        alias = aliases[f"{role}/Live"]["Properties"]
        called = json.dumps(mapping["FunctionName"])

        assert alias["Name"] == LIVE
        assert alias["FunctionVersion"]["Fn::GetAtt"][0] in versions
        assert any(
            f'"Ref": "{id_}"' in called and prod.path(id_) == f"{role}/Live"
            for id_ in prod.resources
        ), path


def test_functions_start_only_with_the_code_of_their_deployment(prod: Assembly) -> None:
    for function in prod.functions.values():
        engine, jobs = (
            (folder / STAMP_FILE).read_text(encoding="utf-8")
            for folder in (prod.engine, function.folder)
        )
        assert function.variables["ENGINE_STAMP"] == engine
        assert function.variables["JOB_STAMP"] == jobs


@pytest.mark.parametrize("flags", [{}, {"@aws-cdk/aws-lambda:recognizeLayerVersion": True}])
def test_changed_layer_is_a_new_version(tmp_path: Path, flags: dict[str, Any]) -> None:
    """Also without the flags of this repository: a team's app may have others."""
    found = {
        _version(tmp_path / str(pin), flags, pin=pin, workers=no_workers, path=WORKER)
        for pin in (1, 2)
    }

    assert len(found) == 2


def test_changed_layer_is_a_new_version_of_a_teams_own_function(tmp_path: Path) -> None:
    found = {
        _version(tmp_path / str(pin), {}, pin=pin, workers=own_worker, path="Charge")
        for pin in (1, 2)
    }

    assert len(found) == 2


Workers: TypeAlias = Mapping[str, lambda_.IFunction]


def no_workers(stack: Stack) -> Workers:
    return {}


def own_worker(stack: Stack) -> Workers:
    function = lambda_.Function(
        stack,
        "Charge",
        runtime=lambda_.Runtime.PYTHON_3_13,
        architecture=lambda_.Architecture.ARM_64,
        handler="charge.handler",
        code=lambda_.Code.from_inline("handler = print"),
        timeout=Duration.seconds(60),
    )
    return {"payments": function}


def _version(
    folder: Path, flags: dict[str, Any], *, pin: int, workers: Callable[[Stack], Workers], path: str
) -> str:
    folder.mkdir()
    pins = folder / "requirements-jobs.txt"
    pins.write_text(f"voucher-sdk=={pin}.0 --hash=sha256:0\n", encoding="utf-8")
    zipfile.ZipFile(layers_for(ON_LAMBDA, jobs=pins)[JOB_PACKAGES].archive, "w").close()
    app = App(outdir=str(folder / "out"), context={**flags, **CONTEXT}, analytics_reporting=False)
    stack = Stack(app, "Shop")
    Oncely(
        stack,
        "Jobs",
        jobs=[PaymentCharge],
        settings=OncelySettings(name="dev"),
        workers=workers(stack),
        requirements=pins,
    )
    app.synth()
    shop = Assembly(folder / "out", "Shop")
    (version,) = (
        id_
        for id_, one in shop.resources.items()
        if one["Type"] == "AWS::Lambda::Version" and shop.path(id_).startswith(path)
    )
    return version
