"""`oncely init`: starts a project, or adds what it needs to an existing repository."""

import re
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, usage_error
from oncely.cli.new_job import JobTemplate, QueueOption, SafetyOption
from oncely.cli.project import FILE, JobList, read_settings
from oncely.core.profiles import RetrySafety

# The files of a project, and their templates. `{package}` is the package of its jobs.
_FILES: Final = {
    FILE: FILE,
    "README.md": "README.md",
    ".gitignore": "gitignore",
    "app.py": "app.py",
    "cdk.json": "cdk.json",
    "local.py": "local.py",
    "requirements-jobs.in": "requirements-jobs.in",
    "requirements-jobs.txt": "requirements-jobs.txt",
    "stages/dev.toml": "stage-dev.toml",
    "stages/local.toml": "stage-local.toml",
    "stages/prod.toml": "stage-prod.toml",
    "{package}/__init__.py": "package.py",
    "{package}/job_list.py": "job_list.py",
    "sandboxes/__init__.py": "sandboxes.py",
    "tests/test_stack.py": "test_stack.py",
}
_TAKEN: Final = ("oncely", "oncely_cdk", "oncely_local", "sandboxes", "tests")
_NEXT: Final = (
    "pip install --group dev   # in a virtual environment",
    "pytest",
    "oncely demo               # needs Node 20 and `npm install -g aws-cdk`",
)
_PACKAGE: Final = re.compile(r"[a-z][a-z0-9_]*")


def init(
    folder: Annotated[Path, typer.Argument(help="Project folder.")] = Path(),
    *,
    job: Annotated[str, typer.Option(help="First job type, such as voucher.issue.")],
    safety: SafetyOption = RetrySafety.KEYED,
    queue: QueueOption = None,
    package: Annotated[str, typer.Option(help="Name of the package for the jobs.")] = "jobs",
) -> None:
    """Start a project with one job.

    Writes the job, its tests, a CDK app, the settings of each stage and the fixtures of a local
    stack. In an existing repository it overwrites nothing, and prints the lines to add.

    Examples:
    - `oncely init shop --job voucher.issue`
    """
    template = JobTemplate(job, safety, queue)
    if not _PACKAGE.fullmatch(package) or package in _TAKEN:
        raise usage_error(f"Invalid package {package!r}: write it like shop_jobs.")
    if read_settings(folder) is not None:
        raise CommandError(
            f"{folder / FILE} has [tool.oncely] already. Add a job with `oncely new-job {job}`."
        )
    root = folder.resolve()
    words = _words(root)
    wanted = {
        root / name.format(package=package): template.render(
            f"project/{file}.txt", package, **words
        )
        for name, file in _FILES.items()
    }
    listing = JobList(root / package / "job_list.py", f"{package}.job_list", "JOBS")
    wanted |= template.files(root, listing)
    kept = [path for path in wanted if path.exists()]
    for path in sorted(set(wanted) - set(kept)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
        console.print_line("wrote", path.relative_to(root))
    for path in sorted(kept):
        _print_kept(path.relative_to(root), path.read_text(encoding="utf-8"), wanted[path])
    console.print_line("")
    console.print_line("Next:")
    for step in (*(() if folder == Path() else (f"cd {folder}",)), *_NEXT):
        console.print_line(f"  {step}")


def _words(root: Path) -> dict[str, str]:
    words = re.findall("[A-Za-z0-9]+", root.name) or ["shop"]
    stack = "".join(word.title() for word in words)
    return {
        "project": "-".join(words).lower(),
        "stack": stack if stack[0].isalpha() else f"Jobs{stack}",
        "version": metadata.version("oncely"),
    }


def _print_kept(path: Path, existing: str, wanted: str) -> None:
    """Print that a file was not overwritten, and the lines to add."""
    match str(path):
        case "pyproject.toml":
            missing = wanted.partition("\n\n")[2].splitlines()  # all but [project]
        case "app.py":
            missing = wanted.splitlines()
        case ".gitignore":
            missing = [line for line in wanted.splitlines() if line not in existing.splitlines()]
        case _:
            missing = []
    console.print_line("kept", path if not missing else f"{path}. Add the lines that are missing:")
    for line in missing:
        console.print_line(f"  {line}")
