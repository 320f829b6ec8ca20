"""A synthesized stack: its resources by path, and its functions."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

# Hides the banner about Node 20. Must be set before the CDK starts Node.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

from app import build_app
from oncely_cdk import OncelySettings

# With the shipped jobs. A job with its own queue adds a worker.
SHIPPED_FUNCTIONS = 12
# The variables that Lambda itself sets.
LAMBDA = {
    "AWS_LAMBDA_FUNCTION_NAME": "function",
    "AWS_REGION": "eu-west-1",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
}
# Shows the paths of constructs, and leaves assets where they are: a copy takes a fifth of the time.
CONTEXT = {"aws:cdk:enable-path-metadata": True, "aws:cdk:disable-asset-staging": True}
PROD = OncelySettings(
    name="prod",
    alert_email="ops@example.com",
    provider_settings={"ses_sender_address": "Shop <receipts@example.com>"},
)


@dataclass(frozen=True)
class FunctionResource:
    """One function of the template."""

    name: str  # the parent path of its construct, such as PaymentsWorker
    properties: Mapping[str, Any]
    folder: Path  # its asset
    layers: tuple[str, ...]

    @property
    def entry(self) -> str:
        return str(self.properties["Handler"]).split(".")[-2]

    @property
    def variables(self) -> dict[str, str]:
        environment = self.properties.get("Environment", {}).get("Variables", {})
        return {
            name: value if isinstance(value, str) else f"the {next(iter(value))} of {name}"
            for name, value in environment.items()
        }


class Assembly:
    """The output of `cdk synth` for one stage."""

    def __init__(self, folder: Path, stack: str) -> None:
        self.folder = folder
        self.stack = stack
        text = (folder / f"{stack}.template.json").read_text(encoding="utf-8")
        self.template: dict[str, Any] = json.loads(text)

    @classmethod
    def from_folder(cls, folder: Path, settings: OncelySettings) -> "Assembly":
        build_app(settings, context=CONTEXT, folder=folder).synth()
        return cls(folder, f"Oncely-{settings.name}")

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.template["Resources"]
        return found

    def of_type(self, type_: str) -> dict[str, dict[str, Any]]:
        return {
            self.path(id_): resource
            for id_, resource in self.resources.items()
            if resource["Type"] == type_
        }

    def properties(self, type_: str) -> dict[str, dict[str, Any]]:
        return {path: one["Properties"] for path, one in self.of_type(type_).items()}

    def only(self, type_: str) -> dict[str, Any]:
        (found,) = self.properties(type_).values()
        return found

    def path(self, logical_id: str) -> str:
        _, *parts = self.resources[logical_id]["Metadata"]["aws:cdk:path"].split("/")
        return "/".join(part for part in parts if part not in {"Default", "Resource"})

    @property
    def engine(self) -> Path:
        """The folder of the layer with the engine."""
        layers = self.properties("AWS::Lambda::LayerVersion")
        (engine,) = [one for path, one in layers.items() if path.endswith("Layers/Engine")]
        return self.asset(engine["Content"]["S3Key"])

    def asset(self, key: str) -> Path:
        file = self.folder / f"{self.stack}.assets.json"
        files = json.loads(file.read_text(encoding="utf-8"))["files"]
        return self.folder / str(files[key.removesuffix(".zip")]["source"]["path"])

    @cached_property
    def functions(self) -> dict[str, FunctionResource]:
        return {function.name: function for function in self._functions()}

    def _functions(self) -> Iterator[FunctionResource]:
        for path, resource in self.of_type("AWS::Lambda::Function").items():
            properties = resource["Properties"]
            if "ZipFile" in properties["Code"]:  # of a test's own
                continue
            yield FunctionResource(
                name=path.removesuffix("/Function"),
                properties=properties,
                folder=self.asset(properties["Code"]["S3Key"]),
                layers=tuple(
                    self.path(layer["Ref"]).rpartition("Layers/")[2].lower()
                    for layer in properties["Layers"]
                ),
            )
