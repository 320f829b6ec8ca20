"""`oncely lock`: pins the packages that a team's jobs import, for the layer of its functions."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError

DEFAULT_INPUT: Final = Path("requirements-jobs.in")
_PIN: Final = re.compile(r"^([\w.-]+==[^\\\n]+?)\s*(?:\\)?$", re.MULTILINE)
# The Lambda runtime includes them; with them, a layer would be three times the size.
_IN_LAMBDA: Final = ("boto3", "botocore", "s3transfer")


def lock(
    wanted: Annotated[
        Path, typer.Argument(metavar="FILE", help="Packages that your jobs import, one per line.")
    ] = DEFAULT_INPUT,
    *,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Upgrade versions that are already pinned.")
    ] = False,
) -> None:
    """Pin the packages that your jobs import.

    Writes every version with its hashes, and no address of a package index, to a file with the
    suffix .txt, which the construct takes as `requirements`. The versions agree with Oncely's own
    layers. Needs uv or pip-tools.

    Examples:
    - `oncely lock requirements-jobs.in`
    """
    if not wanted.is_file():
        raise CommandError(
            f"{wanted} does not exist. Write the packages that your jobs import into it, such as "
            "`requests>=2.30`, one per line."
        )
    pins = _layer_pins()
    written = wanted.with_suffix(".txt")
    if written == wanted:
        raise CommandError(f"{wanted} would be overwritten. Name it {wanted.with_suffix('.in')}.")
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text("\n".join(one for names in pins.values() for one in names))
        left_out = {_name(pin) for pin in pins["layer-runtime"]} | set(_IN_LAMBDA)
        command = _compiler(constraints, sorted(left_out))
        if upgrade:
            command.append("--upgrade")
        _run([*command, "--output-file", str(written), str(wanted)])
    pinned = written.read_text(encoding="utf-8")
    written.write_text(
        f"# Written by `oncely lock` from {wanted.name}.\n{pinned}", encoding="utf-8"
    )
    console.print_line("wrote", written)


def _layer_pins() -> dict[str, list[str]]:
    """Read the versions in the layers of Oncely, by layer."""
    constructs = find_spec("oncely_cdk")
    if constructs is None or not constructs.submodule_search_locations:
        raise CommandError('The constructs are not installed. Run `pip install "oncely[cdk]"`.')
    folder = Path(constructs.submodule_search_locations[0]) / "requirements"
    return {
        file.stem: _PIN.findall(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob("layer-*.txt"))
    }


def _name(pin: str) -> str:
    return pin.partition("==")[0]


def _compiler(constraints: Path, left_out: Iterable[str]) -> list[str]:
    """Return the command of uv, or else of pip-tools."""
    common = (
        *("--quiet", "--generate-hashes", "--no-header", "--no-annotate"),
        *("--no-emit-index-url", "--no-emit-find-links"),
    )
    constrained = ("--constraint", str(constraints))
    if uv := _find("uv"):
        omitted = [word for name in left_out for word in ("--no-emit-package", name)]
        # Versions for every platform: this machine checks what Lambda runs.
        everywhere = ("--universal", "--python-version", "3.11")
        return [uv, "pip", "compile", *common, *everywhere, *constrained, *omitted]
    if pip_compile := _find("pip-compile"):
        omitted = [word for name in left_out for word in ("--unsafe-package", name)]
        bare = ("--strip-extras", "--no-emit-trusted-host")
        return [pip_compile, *common, *bare, *constrained, *omitted]
    raise CommandError(
        "Neither uv nor pip-tools is installed. Run `pip install uv`, and then this command again."
    )


def _find(tool: str) -> str | None:
    """Find a tool in the environment of this command, or on the path."""
    beside = shutil.which(tool, path=str(Path(sys.executable).parent))
    return beside or shutil.which(tool)


def _run(command: list[str]) -> None:
    done = subprocess.run(  # noqa: S603  # uv or pip-tools, on the team's own file
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CommandError(f"The versions could not be resolved:\n{done.stderr.strip()}")
