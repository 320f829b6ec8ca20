"""Installs pinned packages into an environment, with progress; run by make on a bare Python.

Uses uv when it is on the path, and pip otherwise.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

MIN_PYTHON: Final = (3, 11)
# Without a terminal, print a line this often to show progress.
HEARTBEAT_SECONDS: Final = 10.0
_OFFLINE: Final = re.compile(
    r"name resolution|name or service not known|nodename nor servname|"
    r"failed to establish a new connection|network is unreachable|connection refused|"
    r"dns error|error sending request|getaddrinfo|enotfound|eai_again|no route to host|"
    r"connect timeout|connecttimeouterror|operation timed out",
    re.IGNORECASE,
)
_OFFLINE_ADVICE: Final = (
    "Cannot reach the package index. Setup needs the network once: connect this machine, or\n"
    "configure your index or proxy for {tool}, and run the command again."
)


class InstallError(Exception):
    """The packages could not be installed; the message says what to do."""


class InstallProgress:
    """A progress line: rewritten on a terminal, repeated at intervals elsewhere."""

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._phase = ""
        self._began = self._shown = time.monotonic()
        self._live = sys.stdout.isatty()
        self._show(f"{label}: {total} packages", end=not self._live)

    def step(self, name: str) -> None:
        self._done += 1
        self._update(f"{self._done}/{self._total} {name}")

    def phase(self, text: str) -> None:
        if text != self._phase:
            self._phase = text
            self._update(text, force=True)

    def end(self) -> None:
        seconds = time.monotonic() - self._began
        self._show(f"{self._label}: {self._total} packages installed in {seconds:.0f} s", end=True)

    def _update(self, text: str, *, force: bool = False) -> None:
        now = time.monotonic()
        if self._live or force or now - self._shown >= HEARTBEAT_SECONDS:
            self._shown = now
            self._show(f"{self._label}: {text}", end=not self._live)

    def _show(self, text: str, *, end: bool) -> None:
        width = shutil.get_terminal_size().columns - 1
        line = f"\r{text[:width]:<{width}}" if self._live else text
        sys.stdout.write(line + ("\n" if end else ""))
        sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Create the environment if it is missing, and install the requirements into it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path)
    parser.add_argument("requirements", type=Path)
    parser.add_argument("--what", required=True, help="name of the packages in the progress line")
    parser.add_argument("--editable", action="store_true", help="install this repository as well")
    given = parser.parse_args(arguments)
    if sys.version_info < MIN_PYTHON:
        found = ".".join(map(str, sys.version_info[:2]))
        sys.exit(f"Oncely needs Python 3.11 or newer; this is {found}. Try make PYTHON=python3.12")
    try:
        install(given.environment, given.requirements, label=given.what, editable=given.editable)
    except InstallError as error:
        sys.exit(f"\n{error}")


def install(environment: Path, requirements: Path, *, label: str, editable: bool) -> None:
    """Install the pins; every package is checked against its hash."""
    python = environment / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(environment)])
    progress = InstallProgress(label, len(pinned_packages(requirements)))
    tool = _uv(python) or _pip(python)
    pins = ("--require-hashes", "--requirement", str(requirements))
    try:
        _stream([*tool, *pins], progress)
    except InstallError:
        if tool == _pip(python):
            raise
        # uv does not read pip's settings: it may not know the index that pip is configured for.
        progress.phase("uv failed, trying pip")
        tool = _pip(python)
        _stream([*tool, *pins], progress)
    if editable:
        _run([*tool, "--no-deps", "--no-build-isolation", "--editable", "."])
    progress.end()


def _uv(python: Path) -> list[str] | None:
    found = shutil.which("uv")
    return [found, "pip", "install", "--python", str(python)] if found else None


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]


def pinned_packages(requirements: Path) -> list[str]:
    """The names of the pinned packages."""
    text = requirements.read_text(encoding="utf-8")
    return re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)


def _stream(command: list[str], progress: InstallProgress) -> None:
    output_lines: list[str] = []
    with subprocess.Popen(  # noqa: S603  # the installer, with this repository's own pins
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PIP_PROGRESS_BAR": "off", "UV_NO_PROGRESS": "1"},
    ) as process:
        assert process.stdout is not None  # noqa: S101  # a pipe was asked for
        for printed in process.stdout:
            line = printed.strip()
            output_lines.append(line)
            if collected := re.match(r"Collecting ([A-Za-z0-9._-]+)", line):
                progress.step(collected[1])
            elif line.startswith("Installing collected packages"):
                progress.phase("unpacking")
            elif "Retrying (" in line and _OFFLINE.search(line):
                progress.phase("the package index does not answer, retrying")
    if process.returncode:
        raise _failure(command[0], output_lines)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # as above
    if done.returncode:
        raise _failure(command[0], (done.stdout + done.stderr).splitlines())


def _failure(tool: str, output_lines: list[str]) -> InstallError:
    text = "\n".join(output_lines)
    name = "uv" if Path(tool).name == "uv" else "pip"
    if _OFFLINE.search(text):
        return InstallError(_OFFLINE_ADVICE.format(tool=name))
    tail = "\n".join(output_lines[-15:])
    return InstallError(f"{name} failed:\n{tail}")


if __name__ == "__main__":
    main(sys.argv[1:])
