"""Asks what became of an effect: our own rows first, then the provider; nothing is changed."""

from dataclasses import dataclass
from typing import Any

from oncely.contract import AnyContract, Call, Message, Mismatch
from oncely.domain.answers import Answer, Odd, Unreachable
from oncely.domain.due import of_other_values
from oncely.domain.fingerprint import fingerprint
from oncely.domain.jobs import Job


@dataclass(frozen=True)
class Heard:
    """What was heard; without facts there is nothing local to write."""

    answer: Answer
    facts: Any = None  # the contract's own type


def heard_if_closed(row: Job, contract: AnyContract) -> Answer:
    """Whether what was prepared can still take effect; whatever goes wrong is no answer."""
    try:
        return contract.ask_closed(row)
    except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
        return Unreachable(f"asking ended in {type(error).__name__}: {error}")


def heard_about(row: Job, contract: AnyContract, message: Message) -> Heard:
    """Whatever goes wrong is an answer as well: looking changes nothing, and is done again."""
    try:
        standing = contract.check(message)
    except Exception as error:  # noqa: BLE001  # whatever our own rows or a contract raise
        return Heard(
            Unreachable(f"our own rows could not be read: {type(error).__name__}: {error}")
        )
    if isinstance(standing, Mismatch):
        return Heard(Odd(standing.reason))
    if standing.facts is None:
        return Heard(Odd("our own rows do not tell any more what was asked for"))
    try:
        # The same key as when it was sent: another one would find nothing.
        key_length = contract.terms.profile.key_length
        answer = contract.ask(Call(job=row, facts=standing.facts, key_length=key_length))
    except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
        untold = Unreachable(f"asking ended in {type(error).__name__}: {error}")
        return Heard(untold, standing.facts)
    values = None if standing.values is None else fingerprint(standing.values)
    return Heard(of_other_values(row, answer, values), standing.facts)
