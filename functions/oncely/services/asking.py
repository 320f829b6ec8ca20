"""Asks what became of an effect: our own rows first, then the provider; nothing is changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oncely.contract import AnyContract, Call, Message, Mismatch, Proceed, Settled
from oncely.domain.answers import Answer, CannotAsk, Done, Odd, Prepared, Unreachable
from oncely.domain.due import of_other_values
from oncely.domain.fingerprint import fingerprint
from oncely.domain.jobs import Job
from oncely.domain.profiles import Safety
from oncely.domain.table_identity import lost_history
from oncely.ports import TableOpen


@dataclass(frozen=True)
class Heard:
    """What was heard; without facts there is nothing local to write."""

    answer: Answer
    facts: Any = None  # the contract's own type
    found: Mapping[str, str | None] = field(default_factory=dict)  # what the row had lost


def heard_if_closed(row: Job, contract: AnyContract) -> Answer:
    """Whether what was prepared can still take effect; whatever goes wrong is no answer."""
    try:
        return contract.ask_closed(row)
    except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
        return Unreachable(f"asking ended in {type(error).__name__}: {error}")


def heard_about(row: Job, contract: AnyContract, message: Message, table: TableOpen) -> Heard:
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
        call = Call(job=row, facts=standing.facts, key_length=key_length)
        if lost_history(row, table.replays_until):
            answer, found = _asked_after_restore(contract, call, table)
        else:
            answer, found = contract.ask(call), {}
    except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
        untold = Unreachable(f"asking ended in {type(error).__name__}: {error}")
        return Heard(untold, standing.facts)
    values = None if standing.values is None else fingerprint(standing.values)
    judged = of_other_values(row, answer, values)
    if lost_history(row, table.replays_until) and _is_recorded(judged, standing):
        return Heard(judged, None, found)
    return Heard(judged, standing.facts, found)


def found_reference(
    row: Job, contract: AnyContract, message: Message, table: TableOpen
) -> Prepared | Answer | None:
    """What a restored row without a reference has at its provider. Returns None if it lost none."""
    if row.provider_ref is not None or not lost_history(row, table.replays_until):
        return None
    try:
        standing = contract.check(message)
        if isinstance(standing, Mismatch) or standing.facts is None:
            return None  # nothing tells whose it would be: the repair itself says so
        return contract.find_prepared(Call(job=_named(row, table), facts=standing.facts))
    except Exception as error:  # noqa: BLE001  # whatever our own rows or a provider's SDK raise
        return Unreachable(f"asking ended in {type(error).__name__}: {error}")


def _asked_after_restore(
    contract: AnyContract, call: Call[Any], table: TableOpen
) -> tuple[Answer, dict[str, str | None]]:
    """The row may lack its reference: by deployment and job key the provider still knows it."""
    call.job = _named(call.job, table)
    found: dict[str, str | None] = {}
    if call.job.provider_ref is None:
        match contract.find_prepared(call):
            case None:
                pass
            case Prepared(ref=ref):
                found = {"provider_ref": ref, "deployment": call.job.deployment}
                call.job = replace(call.job, provider_ref=ref)
            case answer:
                return answer, {}
    answer = contract.ask(call)
    if isinstance(answer, CannotAsk) and contract.terms.safety is not Safety.NATURAL:
        # Its key may have been used in what the restore lost: no window makes a resend safe.
        answer = Odd(f"the job table was restored, so it may have happened; {answer.reason}")
    return answer, found


def _is_recorded(answer: Answer, standing: Proceed[Any] | Settled[Any]) -> bool:
    """Whether our own rows name this very effect: only the job's row was lost."""
    known = standing.answer if isinstance(standing, Settled) else None
    return (
        isinstance(answer, Done)
        and isinstance(known, Done)
        and all(answer.result.get(name) == value for name, value in known.result.items())
    )


def _named(row: Job, table: TableOpen) -> Job:
    """A row that lost its first claim lost the deployment with it."""
    return replace(row, deployment=row.deployment or table.deployment)
