"""DynamoDB in memory answers as a real engine does: error codes, reasons and attributes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.conformance.twin import TABLES, Twin, answer
from tests.support.dynamo import DynamoFixture
from tests.support.load_size import choose_size

pytestmark = [pytest.mark.mass, pytest.mark.timeout(1200)]
SEQUENCES = choose_size(35, full=2000)
OPERATIONS_OF_SEQUENCE = 20
PlayedRequest = dict[str, Any]
Operation = tuple[str, PlayedRequest]
JOBS, EVENTS = TABLES["jobs"], TABLES["import_events"]
KEYS = ("payment.charge:1", "payment.charge:2", "payment.charge:3")
RECORDS, EVENT_IDS = ("crm#1", "crm#2"), ("10", "9", "é", "\uff5e", "\U0001f600")
PARTITIONS = ("publish#0", "resend#1")
NUMBERS = ("version", "counted", "next_slot")
TEXTS = ("status", "owner", "until")
COUNTER = "next_slot"  # always a number, see RULES
INDEX_KEYS = ("due", "due_at")
SHAPES = ("exists", "absent", "=", "=", "<", "<=", ">=", "BETWEEN", "IN")
ATTRIBUTES = (*NUMBERS, *TEXTS, *INDEX_KEYS, "tags", "message")

NUMBER_VALUES = [
    {"N": number} for number in ("0", "1", "7", "-3", "1.50", "1e3", "007", "12345678901234567890")
]
TEXT_VALUES = [{"S": text} for text in ("", "ready", "started", "é")]
SET_VALUES = [
    *({"SS": list(members)} for members in ("a", "ab", "cba")),
    *({"NS": list(members)} for members in ("1", "12", "321")),
]
OTHER_VALUES = [
    *({"BOOL": True}, {"NULL": True}, {"L": [{"N": "1.0"}, {"S": ""}]}),
    {"M": {"depth": {"N": "01"}}},
]


@dataclass
class Drawn:
    """One request as it is drawn, with the names and values of its expressions."""

    draw: Random
    key: str
    # Some values are refused for an index. In a transaction, see RULES.
    has_wrong_index_keys: bool = False
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def is_drawn(self, chance: float = 0.5) -> bool:
        return self.draw.random() < chance

    def attributes(self, most: int, least: int = 1) -> list[str]:
        return self.draw.sample(ATTRIBUTES, self.draw.randint(least, most))

    def name(self, attribute: str) -> str:
        if attribute in {"version", "message"} and self.is_drawn():
            return attribute
        self.names[f"#{attribute}"] = attribute
        return f"#{attribute}"

    def likely(self, attribute: str) -> Any:  # noqa: ANN401  # the SDK's own form
        """A value of the attribute's own type."""
        if attribute in NUMBERS:
            return self.draw.choice(NUMBER_VALUES)
        if attribute == "tags":
            return self.draw.choice(SET_VALUES)
        if attribute == "due":
            return {"S": self.draw.choice(PARTITIONS)}
        if attribute == "due_at":
            # Different for each key: DynamoDB does not order equal sort keys of an index.
            return {"S": f"{self.draw.randrange(9)}-{self.key}"}
        return self.draw.choice(TEXT_VALUES)

    def any_value(self, attribute: str) -> Any:  # noqa: ANN401  # the SDK's own form
        """Mostly a value of the attribute's own type."""
        if attribute == COUNTER or (attribute in INDEX_KEYS and not self.has_wrong_index_keys):
            return self.likely(attribute)
        if self.is_drawn(0.8):
            return self.likely(attribute)
        kinds = (NUMBER_VALUES, TEXT_VALUES, SET_VALUES, OTHER_VALUES)
        return self.draw.choice(self.draw.choice(kinds))

    def value(self, held: Any) -> str:  # noqa: ANN401  # the SDK's own form
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = held
        return placeholder

    def item(self) -> PlayedRequest:
        values = {name: self.any_value(name) for name in self.attributes(7, 0)}
        return {"job_key": {"S": self.key}, **values}

    def parameters(self) -> PlayedRequest:
        match self.draw.randrange(40):
            case 0:
                self.names["#unused"] = "unused"
            case 1:
                self.values[":unused"] = {"S": "unused"}
            case 2 if self.values:
                self.values.popitem()
        found = {
            "ExpressionAttributeNames": self.names,
            "ExpressionAttributeValues": self.values,
        }
        return {name: held for name, held in found.items() if held}

    def condition(self, depth: int = 0) -> str:
        nested = ("AND", "AND", "OR", "NOT") if depth < 2 else ()
        shape = self.draw.choice((*SHAPES, *nested))
        if shape in {"AND", "OR"}:
            parts = [self.condition(depth + 1) for _ in range(self.draw.randint(2, 3))]
            return f"({f' {shape} '.join(parts)})" if depth else f" {shape} ".join(parts)
        if shape == "NOT":
            return f"NOT {self.condition(2)}"
        if shape in {"<", "<=", ">=", "BETWEEN"}:
            attribute = self.draw.choice((*NUMBERS, *TEXTS, "due_at"))
            name, value = self.name(attribute), self.value(self.likely(attribute))
            more = f" AND {self.value(self.likely(attribute))}" if shape == "BETWEEN" else ""
            return f"{name} {shape} {value}{more}"
        attribute = self.draw.choice(("job_key", *ATTRIBUTES))
        name = self.name(attribute)
        if shape in {"exists", "absent"}:
            return f"attribute_{'not_' if shape == 'absent' else ''}exists({name})"
        values = [self.value(self.any_value(attribute)) for _ in range(self.draw.randint(1, 3))]
        if shape == "IN":
            return f"{name} IN ({', '.join(values)})"
        for unused in values[1:]:
            del self.values[unused]
        return f"{name} {shape} {values[0]}"

    def update(self) -> str:
        sections: dict[str, list[str]] = {}
        for attribute in self.attributes(6):
            section, action = self._action(attribute)
            sections.setdefault(section, []).append(action)
        return " ".join(f"{section} {', '.join(actions)}" for section, actions in sections.items())

    def _action(self, attribute: str) -> tuple[str, str]:
        name = self.name(attribute)
        shapes = ["SET", "SET", "SET", "default", "REMOVE", "copy"]
        if attribute in NUMBERS:
            shapes += ["ADD", "ADD"]
        if attribute == COUNTER:
            shapes += ["count", "count", "+", "+"]
        shape = self.draw.choice(shapes)
        if shape == "REMOVE":
            return shape, name
        if shape == "copy" and attribute not in {COUNTER, *INDEX_KEYS}:
            return "SET", f"{name} = {self.name(self.draw.choice((*NUMBERS, *TEXTS)))}"
        if shape == "ADD":
            return shape, f"{name} {self.value(self.likely(attribute))}"
        if shape == "+":
            return "SET", f"{name} = {name} + {self.value(self.likely(attribute))}"
        value = self.value(self.any_value(attribute))
        if shape == "default":
            return "SET", f"{name} = if_not_exists({name}, {value})"
        if shape == "count":
            one = self.value(self.likely(attribute))
            return "SET", f"{name} = if_not_exists({name}, {value}) + {one}"
        return "SET", f"{name} = {value}"


def one_write(draw: Random, *, in_transaction: bool) -> tuple[str, PlayedRequest]:
    # Which error of a transaction comes first is not documented, so it has one at most.
    keys = KEYS if in_transaction else (*KEYS * 9, "")
    drawn = Drawn(draw, draw.choice(keys), has_wrong_index_keys=not in_transaction)
    others = ["ConditionCheck"] if in_transaction else ["Put", "Delete"]
    kind = draw.choice([*["Update"] * 4, *others])
    request: PlayedRequest = {"TableName": JOBS}
    if drawn.is_drawn():
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    if kind == "ConditionCheck" or drawn.is_drawn():
        request["ConditionExpression"] = drawn.condition()
    if kind == "Put":
        request["Item"] = drawn.item()
    else:
        request["Key"] = {"job_key": {"S": drawn.key}}
    if kind == "Update":
        request["UpdateExpression"] = drawn.update()
        if not in_transaction:
            request["ReturnValues"] = draw.choice(("NONE", "ALL_NEW"))
    return kind, {**request, **drawn.parameters()}


def single_write(draw: Random) -> Operation:
    kind, request = one_write(draw, in_transaction=False)
    return f"{kind.lower()}_item", request


def transaction(draw: Random) -> Operation:
    parts = (one_write(draw, in_transaction=True) for _ in range(draw.randint(1, 3)))
    request: PlayedRequest = {"TransactItems": [{kind: part} for kind, part in parts]}
    if token := draw.choice(("", "token-1", "token-2")):
        request["ClientRequestToken"] = token
    return "transact_write_items", request


def one_statement(draw: Random, key: str) -> PlayedRequest:
    drawn = Drawn(draw, key)
    if drawn.is_drawn():
        item = drawn.item()
        names = ", ".join(f"'{name}': ?" for name in item)
        return {
            "Statement": f'INSERT INTO "{JOBS}" VALUE {{{names}}}',
            "Parameters": [*item.values()],
        }
    changed, expected = drawn.attributes(3), draw.sample(TEXTS, draw.randint(0, 2))
    sets = " ".join(f'SET "{name}" = ?' for name in changed)
    where = " AND ".join(f'"{name}" = ?' for name in ("job_key", *expected))
    values = [drawn.any_value(name) for name in (*changed, *expected)]
    values.insert(len(changed), {"S": key})
    return {"Statement": f'UPDATE "{JOBS}" {sets} WHERE {where}', "Parameters": values}


def statement(draw: Random) -> Operation:
    return "execute_statement", one_statement(draw, draw.choice(KEYS))


def statement_transaction(draw: Random) -> Operation:
    parts = [one_statement(draw, key) for key in draw.sample(KEYS, draw.randint(1, 2))]
    return "execute_transaction", {"TransactStatements": parts}


def query(draw: Random) -> Operation:
    drawn = Drawn(draw, draw.choice(KEYS), has_wrong_index_keys=True)
    text = f"{drawn.name('due')} = {drawn.value(drawn.any_value('due'))}"
    if drawn.is_drawn():
        sign = draw.choice(("BETWEEN", "<=", "<", ">=", ">"))
        text += f" AND {drawn.name('due_at')} {sign} {drawn.value(drawn.likely('due_at'))}"
        if sign == "BETWEEN":
            text += f" AND {drawn.value(drawn.likely('due_at'))}"
    return "query", {
        "TableName": JOBS,
        "IndexName": "due",
        "KeyConditionExpression": text,
        **draw.choice(({}, {"ScanIndexForward": False})),
        **draw.choice(({}, {"Limit": 1}, {"Limit": 2})),
        **draw.choice(({}, {}, {"Select": "COUNT"}, {"ConsistentRead": True})),
        **drawn.parameters(),
    }


def event_operation(draw: Random) -> Operation:
    """One on a table with a sort key."""
    record, event = {"S": draw.choice(RECORDS)}, {"S": draw.choice(EVENT_IDS)}
    key = {"record_id": record, "event_id": event}
    kind = draw.choice(("put", "put", "put", "delete", "get", "query", "query"))
    if kind == "put":
        return "put_item", {"TableName": EVENTS, "Item": {**key, "note": record}}
    if kind == "delete":
        return "delete_item", {"TableName": EVENTS, "Key": key}
    if kind == "get":
        given = draw.choice((key, key, {"record_id": record}, {**key, "more": event}))
        return "get_item", {"TableName": EVENTS, "Key": given, "ConsistentRead": True}
    more = draw.choice(("", " AND event_id < :partition"))
    return "query", {
        "TableName": EVENTS,
        "KeyConditionExpression": f"#partition = :partition{more}",
        "ProjectionExpression": "#partition, event_id",
        "ExpressionAttributeNames": {"#partition": "record_id"},
        "ExpressionAttributeValues": {":partition": record},
        "ConsistentRead": True,
        **draw.choice(({}, {"ScanIndexForward": False})),
        **draw.choice(({}, {"Limit": 2})),
    }


def batch(draw: Random) -> Operation:
    keys = [{"job_key": {"S": draw.choice(KEYS)}} for _ in range(draw.randint(1, 3))]
    return "batch_get_item", {"RequestItems": {JOBS: {"Keys": keys}}}


OPERATIONS: list[Callable[[Random], Operation]] = [
    *[single_write] * 5,
    *[transaction] * 3,
    *[event_operation] * 2,
    *(statement, statement_transaction, query, batch),
]


@settings(max_examples=SEQUENCES, deadline=None, derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_random_requests_are_answered_alike(twin_engine: DynamoFixture, seed: int) -> None:
    # A failure prints the seed, so that its requests can be sent again.
    draw, twin = Random(seed), Twin(twin_engine, (JOBS, EVENTS))  # noqa: S311  # no secret
    for _ in range(OPERATIONS_OF_SEQUENCE):
        operation, request = draw.choice(OPERATIONS)(draw)
        found = twin.send(operation, request)
        while isinstance(found, dict) and "LastEvaluatedKey" in found:
            request = {**request, "ExclusiveStartKey": found["LastEvaluatedKey"]}
            found = twin.send(operation, request)
    twin.check_rows()


def update(text: str, condition: str = "", /, **values: Any) -> Operation:  # noqa: ANN401  # the SDK's own form
    request: PlayedRequest = {
        "TableName": JOBS,
        "Key": {"job_key": {"S": "wrong:types"}},
        "UpdateExpression": text,
    }
    if values:
        named = {f":{name}": value for name, value in values.items()}
        request["ExpressionAttributeValues"] = named
    if condition:
        request["ConditionExpression"] = condition
    return "update_item", request


def insert(**values: Any) -> Operation:  # noqa: ANN401  # the SDK's own form
    names = ", ".join(f"'{name}': ?" for name in ("job_key", *values))
    return "execute_statement", {
        "Statement": f'INSERT INTO "{JOBS}" VALUE {{{names}}}',
        "Parameters": [{"S": "payment.charge:1"}, *values.values()],
    }


def query_from(**start: str) -> Operation:
    return "query", {
        "TableName": JOBS,
        "IndexName": "due",
        "KeyConditionExpression": "due = :due AND due_at < :until",
        "ExpressionAttributeValues": {":due": {"S": "publish#0"}, ":until": {"S": "5"}},
        "ExclusiveStartKey": {name: {"S": text} for name, text in start.items()},
    }


def put(**values: Any) -> Operation:  # noqa: ANN401  # the SDK's own form
    return "put_item", {"TableName": JOBS, "Item": {"job_key": {"S": "a.b:1"}, **values}}


def keys(number: int) -> list[PlayedRequest]:
    return [{"job_key": {"S": f"a.b:{one}"}} for one in range(number)]


def nested(levels: int) -> PlayedRequest:
    return {"L": [nested(levels - 1)]} if levels else {"S": ""}


ONE, TEXT, SET = {"N": "1"}, {"S": "text"}, {"SS": ["a"]}
INDEXED = {"due": {"S": "publish#0"}, "due_at": {"S": "1"}}
MANY = {f"n{number}": ONE for number in range(101)}
INVALID: tuple[str, list[object], PlayedRequest] = ("ValidationException", [], {})
# What DynamoDB refuses and MiniStack does not, or only after it has checked the condition. No such
# request is drawn above. Each rule has the page that states it. No page of AWS states that paths
# must not overlap, so that rule has an issue that quotes DynamoDB's response.
_API, _GUIDE = (
    f"https://docs.aws.amazon.com/amazondynamodb/latest/{part}"
    for part in ("APIReference", "developerguide")
)
RULES: dict[str, tuple[str, Operation]] = {
    "the bounds of BETWEEN have the same type": (
        f"{_API}/API_Condition.html",
        update("SET a = :one", "version BETWEEN :one AND :text", one=ONE, text=TEXT),
    ),
    "< compares strings, numbers and binaries": (
        f"{_API}/API_Condition.html",
        update("SET a = :one", "version < :set", one=ONE, set=SET),
    ),
    "+ takes numbers": (
        f"{_GUIDE}/Expressions.UpdateExpressions.html",
        update("SET a = if_not_exists(a, :one) + :set", one=ONE, set=SET),
    ),
    "+ takes a number of the item": (
        f"{_GUIDE}/Expressions.UpdateExpressions.html",
        update("SET a = if_not_exists(message, :one) + :one", one=ONE),
    ),
    "ADD takes no text": (
        f"{_API}/API_UpdateItem.html",
        update("ADD a :text", "version = :text", text=TEXT),
    ),
    "the paths of an update do not overlap": (
        "https://github.com/HENNGE/aiodynamo/issues/2",
        update("SET a = :text REMOVE a", "version = :text", text=TEXT),
    ),
    "an insert has index keys of the index's type": (f"{_API}/API_PutItem.html", insert(due=ONE)),
    "an insert has no empty index key": (f"{_API}/API_PutItem.html", insert(due={"S": ""})),
    "IN takes 100 operands": (
        f"{_GUIDE}/Expressions.OperatorsAndFunctions.html",
        update("SET a = :n0", f"version IN ({', '.join(f':{name}' for name in MANY)})", **MANY),
    ),
    "the sort key of an index has 1,024 bytes": (
        f"{_GUIDE}/Constraints.html",
        put(due_at={"S": "x" * 1025}),
    ),
    "an index returns only what it projects": (
        f"{_GUIDE}/SecondaryIndexes.html",
        (
            "query",
            {
                "TableName": JOBS,
                "IndexName": "due",
                "KeyConditionExpression": "due = :due",
                "ExpressionAttributeValues": {":due": INDEXED["due"]},
                "ProjectionExpression": "message",
            },
        ),
    ),
    "no statement changes a key": (
        f"{_API}/API_AttributeValueUpdate.html",
        (
            "execute_statement",
            {
                "Statement": f'UPDATE "{JOBS}" SET "job_key" = ? WHERE "job_key" = ?',  # noqa: S608  # in a test
                "Parameters": [TEXT, {"S": "wrong:types"}],
            },
        ),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule_that_engine_does_not_have(twin_engine: DynamoFixture, rule: str) -> None:
    twin = Twin(twin_engine, (JOBS,))
    item = {"job_key": {"S": "wrong:types"}, "message": TEXT, **INDEXED}
    twin.send("put_item", {"TableName": JOBS, "Item": item})
    _, (operation, request) = RULES[rule]

    with pytest.raises(AssertionError):  # once MiniStack has the rule, draw such requests
        twin.send(operation, request)
    assert answer(getattr(twin.memory, operation), request)[0] == INVALID


REFUSED: dict[str, Operation] = {
    "key in an update": update("SET job_key = :text", text=TEXT),
    "no names": (update("REMOVE a")[0], {**update("REMOVE a")[1], "ExpressionAttributeNames": {}}),
    "redundant parentheses": update("SET a = :one", "((a = :one))", one=ONE),
    "empty set": put(tags={"SS": []}),
    "duplicate in a set": put(tags={"NS": ["1", "1.0"]}),
    "39 digits": put(version={"N": "1" * 39}),
    "too large a number": put(version={"N": "1e126"}),
    "too small a number": put(version={"N": "1e-131"}),
    "not a number": put(version={"N": "many"}),
    "33 levels": put(message=nested(33)),
    "2,049 bytes of key": put(job_key={"S": "é" * 1024 + "x"}),
    "101 keys": ("batch_get_item", {"RequestItems": {JOBS: {"Keys": keys(101)}}}),
    "start without a key": query_from(due="publish#0", due_at="1"),
    "start in another partition": query_from(due="other", due_at="1", job_key="a.b:1"),
    "start out of range": query_from(due="publish#0", due_at="6", job_key="a.b:1"),
    "parameter that is missing": (
        "execute_statement",
        {**insert(a=ONE)[1], "Parameters": [TEXT]},
    ),
    "empty index key": put(due={"S": ""}),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_invalid_request_is_refused_by_both(twin_engine: DynamoFixture, wrong: str) -> None:
    twin = Twin(twin_engine, (JOBS,))
    item = {"job_key": {"S": "wrong:types"}, **INDEXED}
    twin.send("put_item", {"TableName": JOBS, "Item": item})
    assert twin.send(*REFUSED[wrong]) == INVALID
