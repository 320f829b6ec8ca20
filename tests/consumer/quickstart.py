"""Follows docs/quickstart.md in a fresh clone, as written.

Each shell block runs as written. Where the page quotes an output after a block, the last command
must print it; a reader would run that command again, so it is repeated.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.consumer.shell import REPOSITORY, environment, expect, run, step
from tests.docs.pages import CodeBlock, page

MAX_SECONDS: Final = 600  # after setup
_WAIT_SECONDS: Final = 120
_QUICKSTART: Final = page("docs/quickstart.md")
_RUNNING: Final = "Oncely is running on this machine."


def main() -> None:
    """Follow the quickstart."""
    with tempfile.TemporaryDirectory(prefix="oncely-quickstart-") as scratch:
        check_quickstart(Path(scratch))


def check_quickstart(folder: Path) -> None:
    """Clone this repository, and follow the page in the clone."""
    clone = folder / "oncely"
    with step("clone this repository"):
        run(folder, "git", "clone", "--quiet", REPOSITORY, clone)
    with step("set it up"):
        run(clone, "make", "setup")
    began = time.monotonic()
    first, *others = _sections()
    with step("follow the quickstart"), _terminal(clone, first[0].text) as said:
        _wait_for(said, _RUNNING)
        exports = ""
        for block, quoted in others:
            lines = block.text.splitlines(keepends=True)
            exports += "".join(one for one in lines if one.startswith("export "))
            _follow(clone, exports, block.text, quoted)
        expect(_charges(clone), "payment.charge:order_1003 1\n")
    if (took := time.monotonic() - began) > MAX_SECONDS:
        sys.exit(f"the quickstart took {took:.0f} s after setup")


def _sections() -> Iterator[tuple[CodeBlock, str]]:
    """The shell blocks, each with the output that the page quotes after it."""
    blocks = _QUICKSTART.blocks()
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language == "sh":
            yield block, after.text if after and not after.language else ""


def _follow(clone: Path, exports: str, block: str, quoted: str) -> None:
    *_, last = block.splitlines()
    output = run(clone, "/bin/sh", "-euc", exports + block)
    until = time.monotonic() + _WAIT_SECONDS
    while not all(line.strip() in output for line in quoted.splitlines()):
        if time.monotonic() > until:
            sys.exit(f"`{last}` does not print\n{quoted}but\n{output}")
        time.sleep(1)
        output = run(clone, "/bin/sh", "-euc", exports + last)


def _charges(clone: Path) -> str:
    """How often the sandbox really charged each order."""
    script = (
        "import collections, json, urllib.request\n"
        "address = json.load(open('.build/local.json'))['providers']\n"
        "ledger = json.load(urllib.request.urlopen(address + '/_sandbox/ledger'))\n"
        "keys = [one['key'] for one in ledger['effects']]\n"
        "for key, count in collections.Counter(keys).items(): print(key, count)\n"
    )
    return run(clone, sys.executable, "-c", script)


@contextmanager
def _terminal(clone: Path, block: str) -> Iterator[Path]:
    """The first terminal: runs the block until the other steps are done."""
    said = clone.parent / "first-terminal.txt"
    with said.open("wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-euc", f"exec {block}"],
            cwd=clone,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield said
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # as Ctrl-C; a background process ignores SIGINT
        process.wait(60)


def _wait_for(said: Path, wanted: str) -> None:
    until = time.monotonic() + MAX_SECONDS
    while wanted not in (text := said.read_text(encoding="utf-8")):
        if time.monotonic() > until or re.search(r"^make: \*\*\*", text, re.MULTILINE):
            sys.exit(f"`make local` did not start:\n{text}")
        time.sleep(1)


if __name__ == "__main__":
    main()
