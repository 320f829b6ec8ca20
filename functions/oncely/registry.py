"""Finds the contract of a message, and says in a sentence what is wrong with a bad one."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from oncely.contract import MAX_MESSAGE_BYTES, AnyContract, Message, body_of
from oncely.domain.errors import InvalidMessageError, InvariantError
from oncely.domain.keys import is_job_type
from oncely.domain.profiles import Safety
from oncely.domain.storable import MAX_DEPTH, is_too_deep, number_fault


class Registry:
    """The contracts of one place: of a queue for its worker, of all queues for a producer."""

    def __init__(self, contracts: Iterable[type[AnyContract]]) -> None:
        self._by_type = {contract.job_type: contract for contract in _checked(contracts)}

    def __iter__(self) -> Iterator[type[AnyContract]]:
        return iter(self._by_type.values())

    def of_queue(self, queue: str) -> "Registry":
        """Only the job types that this queue carries."""
        return Registry(contract for contract in self if contract.needs.queue == queue)

    def contract(self, job_type: str) -> type[AnyContract]:
        """The contract of a job type."""
        try:
            return self._by_type[job_type]
        except KeyError:
            known = ", ".join(sorted(self._by_type)) or "none"
            _refuse(f"unknown job {job_type[:80]!r}; known here: {known}")

    def parse(self, body: str) -> tuple[type[AnyContract], Message]:
        """The contract and the checked message of a queue message, or InvalidMessageError."""
        size = len(body.encode(errors="surrogatepass"))
        if size > MAX_MESSAGE_BYTES:
            _refuse(f"the message has {size} bytes, {MAX_MESSAGE_BYTES} are allowed")
        contract = self.contract(_job_type(body))
        try:
            return contract, contract.message.model_validate_json(body)
        except ValidationError as error:
            _refuse(_sentence(contract.job_type, error))

    def read(self, message: Mapping[str, object]) -> tuple[type[AnyContract], Message]:
        """The same for a message that a row or a producer holds as a mapping."""
        try:
            body = body_of(message)
        except (TypeError, ValueError, RecursionError) as error:
            kind = type(message).__name__
            _refuse(f"the message, a {kind}, cannot be written as a JSON object: {error}")
        return self.parse(body)


def _job_type(body: str) -> str:
    try:
        decoded = json.loads(
            body,
            object_pairs_hook=_an_object,
            parse_constant=_no_constant,
            parse_float=_a_float,
            parse_int=_an_integer,
        )
    except (ValueError, RecursionError) as error:
        _refuse(f"the message is not JSON: {str(error)[:200]}")
    if is_too_deep(decoded):
        _refuse(f"the message is nested more than {MAX_DEPTH} levels deep, so it cannot be stored")
    if not isinstance(decoded, dict) or not isinstance(decoded.get("job"), str):
        _refuse('the message is no JSON object with a "job", such as {"job": "payment.charge", …}')
    return str(decoded["job"])


def _no_constant(name: str) -> NoReturn:
    """NaN and Infinity are Python's, not JSON's; no row could keep them."""
    raise ValueError(f"{name} is not JSON")


def _a_float(text: str) -> float:
    _check_number(text)
    number = float(text)
    _check_number(repr(number))  # it is rounded, at the edge to one that is too large
    return number


def _an_integer(text: str) -> int:
    _check_number(text)
    return int(text)


def _check_number(text: str) -> None:
    """Refuse what no row could hold: the job would fail in every run, and alert each time."""
    if fault := number_fault(text):
        _refuse(f"the number {text[:40]} {fault}")


def _an_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Parsers differ in which of two equal names they take: take neither."""
    found = dict(pairs)
    if "" in found:
        _refuse("the message cannot be stored: a name in it is empty")
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _sentence(job_type: str, error: ValidationError) -> str:
    """What is wrong, without the values: a hostile or secret one must not reach a log."""
    faults = (
        f"{'.'.join(str(step)[:40] for step in fault['loc']) or 'message'} {_fault(fault)}"
        for fault in error.errors(include_url=False, include_input=False, include_context=False)
    )
    return f"not a valid {job_type} message: {'; '.join(faults)}"[:500]


def _fault(fault: ErrorDetails) -> str:
    match fault["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is not one of its fields"
        case _:  # "Input should be 1", "String should have at most 128 characters"
            said = fault["msg"].removeprefix("Value error, ")
            _, should, rest = said.partition(" should ")
            return f"should {rest}" if should else f"is wrong: {said}"


def _refuse(reason: str) -> NoReturn:
    # Repeats what a sender wrote, which may not be printable.
    raise InvalidMessageError("".join(c if c.isprintable() else ascii(c)[1:-1] for c in reason))


def _checked(contracts: Iterable[type[AnyContract]]) -> list[type[AnyContract]]:
    """Find a mistake of a contract's author at import, not in the night."""
    checked: dict[str, type[AnyContract]] = {}
    for contract in contracts:
        name, profile = contract.job_type, contract.terms.profile
        if not is_job_type(name):
            _wrong(contract, f"job_type {name!r} is not written like 'payment.charge'")
        if name in checked:
            _wrong(contract, f"{name} is registered twice")
        if contract.terms.safety is Safety.KEYED and profile.key_window is None:
            _wrong(contract, f"a keyed effect needs a key_window in the {profile.name} profile")
        if get_args(contract.message.model_fields["job"].annotation) != (name,):
            _wrong(contract, f"the field job of its message must be Literal[{name!r}]")
        if contract.terms.safety is Safety.LOOKUP and profile.lookup_lag is None:
            _wrong(contract, f"a lookup effect needs a lookup_lag in the {profile.name} profile")
        checked[name] = contract
    return list(checked.values())


def _wrong(contract: type[AnyContract], what: str) -> NoReturn:
    raise InvariantError(f"contract {contract.__name__}: {what}")
