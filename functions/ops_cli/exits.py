"""How a command ends: a code that programs can rely on, and one sentence for people."""

from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """What the shell is told. Scripts rely on the numbers; do not change them."""

    OK = 0
    REFUSED = 1  # there is no such job, or it may not be done
    USAGE = 2  # the command was not written as it must be
    UNREACHABLE = 3  # AWS, the stack or a provider cannot be reached, or you may not
    ATTENTION = 4  # it ran, and what it found needs someone


MEANINGS: Final = {
    Exit.OK: "done",
    Exit.REFUSED: "refused: no such job, a message that is not valid, a repair that may not be",
    Exit.USAGE: "the command is not written as it must be",
    Exit.UNREACHABLE: "AWS, the stack or the provider cannot be reached, or you may not",
    Exit.ATTENTION: "it ran, and found something that needs someone",
}


class CommandError(Exception):
    """Ends the command; its sentence says what is wrong and what to do next."""

    def __init__(self, sentence: str, code: Exit = Exit.REFUSED) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
