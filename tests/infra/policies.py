"""The permissions in a template's policies: role, action, resource and condition."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.infra.assembly import Assembly


@dataclass(frozen=True, order=True)
class Permission:
    """One action that one role may perform on one resource."""

    role: str  # path of the role's construct
    action: str
    resource: str  # path of a construct, with the suffix of its ARN
    condition: str = ""  # such as "ses:FromAddress = receipts@example.com"

    def __str__(self) -> str:
        condition = f" if {self.condition}" if self.condition else ""
        return f"{self.role:<24} {self.action:<32} {self.resource}{condition}"


def permissions(assembly: Assembly) -> set[Permission]:
    return set(_permissions(assembly))


def _permissions(assembly: Assembly) -> Iterator[Permission]:
    for policy in assembly.properties("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            condition = _format_condition(statement.get("Condition", {}))
            for role in policy["Roles"]:
                name = assembly.path(role["Ref"]).removesuffix("/Role")
                for action in _as_list(statement["Action"]):
                    for on in _as_list(statement["Resource"]):
                        yield Permission(name, action, format_value(assembly, on), condition)


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
    words = {"StringEquals": "=", "ForAllValues:StringLike": "like"}
    return " and ".join(
        f"{key} {words[operator]} {' or '.join(_as_list(value))}"
        for operator, pairs in condition.items()
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
