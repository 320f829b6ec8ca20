"""`oncely init` and `new-job`: start a project, and write a job, its test and its line."""

import ast
import re
from dataclasses import dataclass
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, usage_error
from oncely.cli.project import FILE, JobList, find_project, read_settings
from oncely.core.keys import is_job_type
from oncely.core.profiles import RetrySafety

# The template lines that each safety class needs.
_LINE_MARKS: Final = {
    RetrySafety.KEYED: {"post", "keyed", "lookup"},
    RetrySafety.LOOKUP: {"post", "lookup"},
    RetrySafety.NATURAL: {"natural", "no_lookup"},
    RetrySafety.AT_MOST_ONCE: {"post", "no_lookup"},
}
# Nouns whose id would be personal data, or a name that pydantic or `Job` has.
_NO_IDS: Final = frozenset({"customer", "model", "subject"})
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_ENGINE: Final = "oncely"  # the package of the jobs in a clone of Oncely

SafetyOption = Annotated[
    RetrySafety,
    typer.Option(
        help="natural: safe to repeat. "
        "keyed: safe to repeat while the provider remembers the idempotency key. "
        "lookup: not safe to repeat, but can be looked up. "
        "at_most_once: not safe to repeat and cannot be looked up."
    ),
]
QueueOption = Annotated[
    str | None, typer.Option(help="Queue for its messages (default: one of its own).")
]


def new_job(
    name: Annotated[str, typer.Argument(help="Job type, such as refund.issue.")],
    safety: SafetyOption = RetrySafety.KEYED,
    queue: QueueOption = None,
) -> None:
    """Create a job with a passing test.

    Also adds it to the list of jobs in `[tool.oncely]` of pyproject.toml.

    Examples:
    - `oncely new-job refund.issue --safety keyed`
    """
    job = JobTemplate(name, safety, queue)
    project = find_project()
    if not Path.cwd().is_relative_to(project.folder):
        raise CommandError(
            "This folder is not in a project, so nothing was written: run the command in one, or "
            f"start one with `oncely init --job {name}`."
        )
    listing = project.job_list()
    written = job.files(project.folder, listing)
    for path in written:
        if path.exists():
            shown = path.relative_to(project.folder)
            raise CommandError(f"{shown} already exists. Nothing was written.")
    listed = add_to_list(listing, job)
    for path, text in {**written, listing.file: listed}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        console.print_line("wrote", path.relative_to(project.folder))
    console.print_line("")
    console.print_line("Next:")
    for step in _next_steps(job, listing):
        console.print_line(f"  {step}")


@dataclass(frozen=True)
class JobTemplate:
    """A job type that is not written yet."""

    name: str
    safety: RetrySafety
    queue: str | None = None

    def __post_init__(self) -> None:
        if not is_job_type(self.name):
            raise usage_error(f"Invalid job type {self.name!r}: write it like refund.issue.")
        if self.queue is not None and not _NAME.fullmatch(self.queue):
            raise usage_error(f"Invalid queue {self.queue!r}: write it like refunds.")

    @property
    def module(self) -> str:
        return self.name.replace(".", "_")

    @property
    def class_name(self) -> str:
        return self.module.title().replace("_", "")

    def files(self, folder: Path, listing: JobList) -> dict[Path, str]:
        """Return the sources of the job and its test."""
        tests = folder / "tests" / ("unit" if _is_shipped(listing) else "")
        sources = {
            listing.file.with_name(f"{self.module}.py"): "job.txt",
            tests / f"test_{self.module}.py": "test.txt",
        }
        return {path: self.render(file, listing.package) for path, file in sources.items()}

    def render(self, file: str, package: str, **more: str) -> str:
        """Return a template for a job in this package."""
        first, *others = re.findall("[A-Z][a-z0-9]*", self.class_name)
        marks = {
            *_LINE_MARKS[self.safety],
            "shipped" if package.partition(".")[0] == _ENGINE else "own",
            # What the class derives needs no line.
            *(() if self.name == f"{first}.{'_'.join(others)}".lower() else ("named",)),
            *(() if self.queue is None else ("queue",)),
        }
        kept_lines = []
        for line in (files("oncely.cli") / "templates" / file).read_text("utf-8").split("\n"):
            mark, _, rest = line[1:].partition("|") if line.startswith("?") else ("", "", line)
            if not mark or mark in marks:
                kept_lines.append(rest)
        return Template("\n".join(kept_lines)).substitute(self._words(package), **more)

    def _words(self, package: str) -> dict[str, str]:
        noun = self.name.partition(".")[0]
        return {
            "job_type": self.name,
            "package": package,
            "module": self.module,
            "name": self.class_name,
            "noun": noun,
            # For this job only: jobs with the same first word do not share an API key.
            "provider_name": self.module,
            "id": "request_id" if noun in _NO_IDS else f"{noun}_id",
            "queue": str(self.queue),
        }


def add_to_list(listing: JobList, job: JobTemplate) -> str:
    """Return the source of the list with one more import and one more entry, both sorted."""
    text = listing.file.read_text(encoding="utf-8")
    prefix = f"from {listing.package}."
    wanted = f"{prefix}{job.module} import {job.class_name}"
    lines = text.split("\n")
    if wanted in lines:
        raise CommandError(f"{job.class_name} is already in the list of jobs.")
    by_hand = CommandError(
        f"Cannot edit {listing.file.name}. Add `{wanted}`, and {job.class_name} to "
        f"{listing.name}, by hand."
    )
    imports = [at for at, line in enumerate(lines) if line.startswith(prefix)]
    try:
        begin = next(at for at, line in enumerate(lines) if line.startswith(listing.name))
        end = next(at for at in range(begin, len(lines)) if lines[at] in {")", "]"})
    except StopIteration:
        raise by_hand from None
    if not imports:
        raise by_hand
    lines[begin + 1 : end] = sorted((*lines[begin + 1 : end], f"    {job.class_name},"))
    first, after = imports[0], imports[-1] + 1
    lines[first:after] = sorted((*lines[first:after], wanted))
    new = "\n".join(lines)
    try:
        ast.parse(new)
    except SyntaxError:
        raise by_hand from None
    return new


def _is_shipped(listing: JobList) -> bool:
    return listing.package.partition(".")[0] == _ENGINE


def _next_steps(job: JobTemplate, listing: JobList) -> tuple[str, ...]:
    edit = f"{job.module}.py: its provider, its fields, its requests"
    if not _is_shipped(listing):
        return (f"edit {listing.package.replace('.', '/')}/{edit}", f"pytest -k {job.module}")
    return (
        f"edit functions/oncely/jobs/{edit}",
        "make docs                                       # update the generated pages",
        f'make test ARGS="-k {job.module}"',
        "UPDATE_SNAPSHOTS=1 make test ARGS=tests/infra   # review its queue and permissions",
    )


# The files of a project, and their templates. `{package}` is the package of its jobs.
_FILES: Final = {
    FILE: FILE,
    "README.md": "README.md",
    ".gitignore": "gitignore",
    "app.py": "app.py",
    "cdk.json": "cdk.json",
    "package.json": "package.json",
    "requirements-dev.txt": "requirements-dev.txt",
    "requirements-jobs.in": "requirements-jobs.in",
    "requirements-jobs.txt": "requirements-jobs.txt",
    "stages/dev.toml": "stage-dev.toml",
    "stages/local.toml": "stage-local.toml",
    "stages/prod.toml": "stage-prod.toml",
    "{package}/__init__.py": "package.py",
    "{package}/job_list.py": "job_list.py",
    "tests/test_stack.py": "test_stack.py",
}
_TAKEN: Final = ("oncely", "oncely_cdk", "oncely_local", "tests")
_NEXT: Final = (
    "pip install -r requirements-dev.txt   # in a virtual environment",
    "npm install                           # the CDK's command line; it needs Node 20",
    "pytest",
    "oncely demo",
)


def init(
    folder: Annotated[Path, typer.Argument(help="Project folder.")] = Path(),
    *,
    job: Annotated[str, typer.Option(help="First job type, such as voucher.issue.")],
    safety: SafetyOption = RetrySafety.KEYED,
    queue: QueueOption = None,
    package: Annotated[str, typer.Option(help="Name of the package for the jobs.")] = "jobs",
) -> None:
    """Start a project with one job.

    Writes the job, its test, a CDK app and the settings of each stage. In an existing repository
    it overwrites nothing, and prints the lines to add.

    Examples:
    - `oncely init shop --job voucher.issue`
    """
    template = JobTemplate(job, safety, queue)
    if not _NAME.fullmatch(package) or package in _TAKEN:
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
        case "package.json":
            missing = [] if '"aws-cdk"' in existing else wanted.splitlines()[2:-1]
        case ".gitignore" | "requirements-dev.txt":
            missing = [line for line in wanted.splitlines() if line not in existing.splitlines()]
        case _:
            missing = []
    console.print_line("kept", path if not missing else f"{path}. Add the lines that are missing:")
    for line in missing:
        console.print_line(f"  {line}")
