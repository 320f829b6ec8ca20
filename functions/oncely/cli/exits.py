"""How a command ends: a code that programs can rely on, and one sentence for people."""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What the shell is told. Scripts rely on the numbers; do not change them."""

    OK = 0
    REFUSED = 1  # there is no such job, or it may not be done
    USAGE = 2  # the command was not written as it must be
    UNREACHABLE = 3  # AWS, the stack or a provider cannot be reached, or you may not
    ACTION_NEEDED = 4  # it ran, and what it found needs someone


DESCRIPTIONS: Final = {
    ExitCode.OK: "done",
    ExitCode.REFUSED: "refused: no such job, a message that is not valid, a repair that may not be",
    ExitCode.USAGE: "the command is not written as it must be",
    ExitCode.UNREACHABLE: "AWS, the stack or the provider cannot be reached, or you may not",
    ExitCode.ACTION_NEEDED: "it ran, and found something that needs someone",
}


class CommandError(Exception):
    """Ends the command; its sentence says what is wrong and what to do next."""

    def __init__(self, message: str, code: ExitCode = ExitCode.REFUSED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
