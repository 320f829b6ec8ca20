"""The oldest aws-cdk-lib and another Python synthesize the same: equal hashes of equal code."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Final

from oncely_cdk.packaging import lambda_python
from tests.consumer.deployments import OWN_STACK
from tests.consumer.shell import REPOSITORY, run, step, synthesize

# In other versions with an older CDK.
_OF_THE_CDK: Final = re.compile(r"aws-cdk|attrs|cattrs|cdk-nag|constructs|jsii|typeguard")


def check_oldest_versions(
    folder: Path, project: Path, wheel: Path, *, uv: Path, ways: Path
) -> None:
    """Synthesize with the lower bound in pyproject.toml, on Python 3.13 if it is found."""
    oldest = _oldest_cdk()
    interpreter = lambda_python()
    if interpreter is None:
        sys.stdout.write("Python 3.13 not found: comparing on this interpreter only\n")
    with step(f"synthesize with aws-cdk-lib {oldest} on {interpreter or sys.executable}"):
        python = _install(folder, wheel, interpreter or Path(sys.executable), uv=uv, cdk=oldest)
        other = synthesize(project, python, "own_stack.py", "oldest.out")
        found, expected = _code_hashes(other), _code_hashes(ways)
        if found != expected:
            sys.exit(f"{found} differs from {expected}")


def _oldest_cdk() -> str:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    bounds = " ".join(project["project"]["optional-dependencies"]["cdk"])
    found = re.search(r"aws-cdk-lib>=([\d.]+)", bounds)
    assert found
    return found[1]


def _install(folder: Path, wheel: Path, interpreter: Path, *, uv: Path, cdk: str) -> Path:
    lines = (folder / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constraints = folder / "constraints-oldest.txt"
    kept = (line for line in lines if not _OF_THE_CDK.match(line))
    constraints.write_text("\n".join(kept), encoding="utf-8")
    run(folder, interpreter, "-m", "venv", "--without-pip", "oldest")
    python = folder / "oldest" / "bin" / "python"
    wanted = (f"oncely[cdk] @ {wheel.as_uri()}", f"aws-cdk-lib=={cdk}.*", "pip")
    install = (uv, "pip", "install", "--quiet", "--python", python)
    run(folder, *install, "--constraint", constraints, *wanted)
    return python


def _code_hashes(assembly: Path) -> set[str]:
    """The hashes of the engine's layer and of the jobs, which no local Python changes."""
    template = json.loads((assembly / f"{OWN_STACK}.template.json").read_text(encoding="utf-8"))
    return {
        one["Properties"].get("Content", one["Properties"].get("Code"))["S3Key"]
        for id_, one in template["Resources"].items()
        if one["Type"] == "AWS::Lambda::Function" or "LayersEngine" in id_
    }
