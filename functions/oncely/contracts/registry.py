"""The registry of contracts, which parses messages and explains why one is invalid."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from oncely.contracts.job import AnyJob, Tools
from oncely.contracts.message import MAX_MESSAGE_BYTES, encode_message
from oncely.core.errors import InvalidMessageError, InvariantError
from oncely.core.job_row import JobRow
from oncely.plugins.provider import AnyProvider


class JobRegistry:
    """Contracts by job type: those of one queue for its worker, all of them for a producer."""

    def __init__(self, contracts: Iterable[type[AnyJob]]) -> None:
        self._by_type = {contract.job_type: contract for contract in _validate_jobs(contracts)}

    def __iter__(self) -> Iterator[type[AnyJob]]:
        return iter(self._by_type.values())

    def for_queue(self, queue: str) -> "JobRegistry":
        return JobRegistry(contract for contract in self if contract.queue == queue)

    def contract(self, job_type: str) -> type[AnyJob]:
        try:
            return self._by_type[job_type]
        except KeyError:
            known = ", ".join(sorted(self._by_type)) or "none"
            _raise_invalid_message(f"unknown job type {job_type[:80]!r}; known job types: {known}")

    def can_look_up(self, job_type: str) -> bool:
        """Whether an alert may suggest a lookup. A job type of another version may have one."""
        types = [one for one in self if one.job_type == job_type]
        return all(policy.can_look_up for one in types for policy in one.policies.values())

    def parse_body(self, body: str) -> AnyJob:
        """Parse a queue message, or raise InvalidMessageError."""
        size = len(body.encode(errors="surrogatepass"))
        if size > MAX_MESSAGE_BYTES:
            _raise_invalid_message(f"the message has {size} bytes, {MAX_MESSAGE_BYTES} are allowed")
        fields = _decode(body)
        contract_type = self.contract(str(fields["job"]))
        # Only a message needs a version: a job in Python is of the one that is imported.
        faults = [] if "v" in fields else ["v is missing"]
        try:
            job = contract_type.model_validate_json(body)
        except ValidationError as error:
            faults.extend(_describe_errors(error))
            _raise_faults(contract_type.job_type, faults)
        if faults:
            _raise_faults(contract_type.job_type, faults)
        return job

    def connected(self, tools: Tools) -> Callable[[str], AnyJob]:
        """Return a parser of queue messages, which returns jobs that can run."""
        return lambda body: self.parse_body(body).with_tools(tools)

    def parse_mapping(self, message: Mapping[str, object]) -> AnyJob:
        try:
            body = encode_message(message)
        except (TypeError, ValueError, RecursionError) as error:
            name = type(message).__name__
            reason = f"the message, a {name}, cannot be encoded as a JSON object: {error}"
            _raise_invalid_message(reason)
        return self.parse_body(body)

    def parse_row(self, row: JobRow) -> AnyJob:
        """Parse the message of a row. It must be the message of this job.

        Permissions are limited by key. A row that could carry another job's message would give its
        writer the rights of that job type.
        """
        job = self.parse_mapping(row.message)
        if (key := job.job_key()) != row.job_key or job.job_type != row.job_type:
            _raise_invalid_message(f"the row of {row.job_key} holds the message of {key}")
        if job.run_at is not None:
            _raise_invalid_message(f"the message in the row of {row.job_key} holds a time")
        return job


def _decode(body: str) -> Mapping[str, object]:
    try:
        decoded = json.loads(
            body,
            object_pairs_hook=_parse_object,
            parse_constant=_reject_constant,
            parse_float=_parse_float,
            parse_int=_parse_integer,
        )
    except (ValueError, RecursionError) as error:
        _raise_invalid_message(f"the message is not JSON: {str(error)[:200]}")
    if is_too_deep(decoded):
        _raise_invalid_message(
            f"the message is nested more than {MAX_DEPTH} levels deep, so it cannot be stored"
        )
    if not isinstance(decoded, dict) or not isinstance(decoded.get("job"), str):
        _raise_invalid_message(
            'the message is not a JSON object with a "job", such as {"job": "payment.charge", …}'
        )
    return decoded


def _reject_constant(name: str) -> NoReturn:
    # Python accepts NaN and Infinity, JSON does not, and no row can store them.
    raise ValueError(f"{name} is not JSON")


def _parse_float(text: str) -> float:
    _check_number(text)
    number = float(text)
    _check_number(repr(number))  # rounding can exceed the limit
    return number


def _parse_integer(text: str) -> int:
    _check_number(text)
    return int(text)


def _check_number(text: str) -> None:
    # A job with a number that no row can store would fail and alert in every run.
    if fault := number_fault(text):
        _raise_invalid_message(f"the number {text[:40]} {fault}")


def _parse_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if "" in members:
        _raise_invalid_message("the message cannot be stored: an object has an empty name")
    if len(members) != len(pairs):  # parsers differ in which of the two values they use
        raise ValueError("an object has a duplicate name")
    return members


def _raise_faults(job_type: str, faults: Iterable[str]) -> NoReturn:
    _raise_invalid_message(f"not a valid {job_type} message: {'; '.join(faults)}"[:500])


def _describe_errors(error: ValidationError) -> Iterator[str]:
    # Leave out the values: a secret or hostile one must not reach a log.
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        field = ".".join(str(step)[:40] for step in fault["loc"]) or "message"
        yield f"{field} {_describe_error(fault)}"


def _describe_error(fault: ErrorDetails) -> str:
    match fault["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is not a field of this message"
        case _:  # "Input should be 1", "String should have at most 128 characters"
            text = fault["msg"].removeprefix("Value error, ")
            _, should, rest = text.partition(" should ")
            return f"should {rest}" if should else f"is invalid: {text}"


def _raise_invalid_message(reason: str) -> NoReturn:
    # The reason can quote the producer's text, which may not be printable.
    raise InvalidMessageError("".join(c if c.isprintable() else ascii(c)[1:-1] for c in reason))


def _validate_jobs(jobs: Iterable[type[AnyJob]]) -> list[type[AnyJob]]:
    """Report what one class cannot know: job types and plug-ins that share a name."""
    checked: dict[str, type[AnyJob]] = {}
    plugins: dict[str, AnyProvider] = {}
    for one in jobs:
        if one.job_type in checked:
            raise InvariantError(f"job {one.__name__}: {one.job_type} is registered twice")
        checked[one.job_type] = one
        for plugin in one.all_providers():
            if (other := plugins.setdefault(plugin.name, plugin)) is not plugin:
                # It would get the client and the API key of the other one.
                raise InvariantError(
                    f"job {one.__name__}: {type(plugin).__name__} has the name {plugin.name!r}, as "
                    f"another {type(other).__name__} does: give each provider its own name"
                )
    return list(checked.values())


# DynamoDB's limits for one number and for one attribute.
MAX_DIGITS: Final = 38
MAX_EXPONENT: Final = 125  # up to 9.9999999999999999999999999999999999999E+125
MIN_EXPONENT: Final = -130  # from 1E-130
MAX_DEPTH: Final = 32

_TOO_LARGE: Final = f"is too large to be stored (at most 9.99E+{MAX_EXPONENT})"
_TOO_SMALL: Final = f"is too close to zero to be stored (at least 1E{MIN_EXPONENT})"


def number_fault(text: str) -> str | None:
    """Return why a JSON number cannot be stored. Returns None if it can be."""
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent beyond those of Python's decimals
        return _TOO_SMALL if "e-" in text.lower() else _TOO_LARGE
    if not number.is_zero() and number.adjusted() > MAX_EXPONENT:
        return _TOO_LARGE
    if not number.is_zero() and number.adjusted() < MIN_EXPONENT:
        return _TOO_SMALL
    if len(number.as_tuple().digits) > MAX_DIGITS:
        return f"has more than {MAX_DIGITS} digits, so it cannot be stored exactly"
    return None


def is_too_deep(document: object) -> bool:
    """Return whether objects and lists are nested too deep for a row. The outermost is level 1."""
    level = [document]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: object) -> list[object]:
    match value:  # an empty object or list counts as a level too
        case dict():
            return [*value.values()] or [None]
        case list():
            return [*value] or [None]
        case _:
            return []
