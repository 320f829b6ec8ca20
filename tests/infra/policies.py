"""The permissions in a template's policies: role, action, resource and condition."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tests.infra.assembly import Assembly


@dataclass(frozen=True, order=True)
class Permission:
    """One action that one role may perform on one resource."""

    role: str  # path of the role's or managed policy's construct
    action: str
    resource: str  # path of a construct, with the suffix of its ARN
    condition: str = ""  # such as "ses:FromAddress = receipts@example.com"
    leading_keys: tuple[str, ...] = ()  # patterns for the keys of items
    attributes: tuple[str, ...] = ()  # names of attributes, if they are limited

    def __str__(self) -> str:
        keys = " or ".join(self.leading_keys)
        condition = self.condition or (f"dynamodb:LeadingKeys like {keys}" if keys else "")
        if self.attributes:
            condition += f" and dynamodb:Attributes in {', '.join(self.attributes)}"
        return f"{self.role:<24} {self.action:<32} {self.resource}" + (
            f" if {condition}" if condition else ""
        )

    def allows(self, request: "Request") -> bool:
        """Evaluate as IAM does. MiniStack is not given the keys of items."""
        return (
            (self.role, self.action) == (request.role, request.action)
            and _is_like(request.resource, self.resource)
            and (not self.leading_keys or all(map(self._covers, request.keys)))
            and (not self.attributes or set(request.attributes) <= set(self.attributes))
        )

    def _covers(self, key: str) -> bool:
        return any(_is_like(key, pattern) for pattern in self.leading_keys)


@dataclass(frozen=True, order=True)
class Request:
    """One action of one role on one resource, with the keys of the items it names."""

    role: str
    action: str
    resource: str
    keys: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()  # of a row that is inserted


def is_allowed(granted: Iterable[Permission], request: Request) -> bool:
    return any(permission.allows(request) for permission in granted)


def _is_like(text: str, pattern: str) -> bool:
    """IAM's StringLike: `*` and `?`, and no other special character."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def permissions(assembly: Assembly) -> set[Permission]:
    return set(_permissions(assembly))


def _permissions(assembly: Assembly) -> Iterator[Permission]:
    for name, document in _policy_documents(assembly):
        for statement in document["Statement"]:
            assert statement["Effect"] == "Allow"
            conditions = dict(statement.get("Condition", {}))
            like = conditions.pop("ForAllValues:StringLike", {"dynamodb:LeadingKeys": []})
            assert like.keys() == {"dynamodb:LeadingKeys"}
            keys = tuple(_as_list(like["dynamodb:LeadingKeys"]))
            equals = conditions.pop("ForAllValues:StringEquals", {"dynamodb:Attributes": []})
            assert equals.keys() == {"dynamodb:Attributes"}
            attributes = tuple(_as_list(equals["dynamodb:Attributes"]))
            condition = _format_condition(conditions)
            for action in _as_list(statement["Action"]):
                for on in _as_list(statement["Resource"]):
                    resource = format_value(assembly, on)
                    yield Permission(name, action, resource, condition, keys, attributes)


def _policy_documents(assembly: Assembly) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for policy in assembly.properties("AWS::IAM::Policy").values():
        for role in policy["Roles"]:
            yield assembly.path(role["Ref"]).removesuffix("/Role"), policy["PolicyDocument"]
    for path, policy in assembly.properties("AWS::IAM::ManagedPolicy").items():
        yield path.removesuffix("/Policy"), policy["PolicyDocument"]


def format_value(assembly: Assembly, value: Any) -> str:  # noqa: ANN401  # any template value
    match value:
        case str():
            return _machine(assembly, value) or value
        case {"Fn::GetAtt": [id_, _]} | {"Ref": id_} if id_ in assembly.resources:
            return assembly.path(id_)
        case {"Fn::Join": [glue, parts]}:
            text = str(glue).join(format_value(assembly, part) for part in parts)
            return _machine(assembly, text) or text
        case {"Ref": pseudo}:
            return f"<{pseudo}>"
        case _:
            raise AssertionError(f"a resource that nobody can read: {value}")


def _machine(assembly: Assembly, arn: str) -> str | None:
    machines = assembly.properties("AWS::StepFunctions::StateMachine").items()
    names = {one.get("StateMachineName"): path for path, one in machines}
    return names.get(arn.rpartition(":stateMachine:")[2])


def _format_condition(condition: Mapping[str, Mapping[str, Any]]) -> str:
    assert condition.keys() <= {"StringEquals"}
    return " and ".join(
        f"{key} = {' or '.join(_as_list(value))}"
        for pairs in condition.values()
        for key, value in pairs.items()
    )


def inline_policies(assembly: Assembly) -> Mapping[str, Any]:
    return {
        path: role
        for path, role in assembly.properties("AWS::IAM::Role").items()
        if {"Policies", "ManagedPolicyArns"} & set(role)
    }


def _as_list(value: Any) -> list[Any]:  # noqa: ANN401  # IAM allows one or many
    return value if isinstance(value, list) else [value]
