"""SES's API, version 2, as the installed botocore describes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import botocore.session

from oncely.testing.sandbox.http_messages import SandboxRequest, SandboxResponse
from tests.specs.description import ApiDescription, ApiOperation

_SCALARS: Final = {"double": "number", "float": "number", "long": "integer", "timestamp": "any"}


@dataclass(frozen=True, kw_only=True)
class SesDescription(ApiDescription):
    """SES names an error in a header, and each error has its own status."""

    errors: Mapping[str, int]

    def differences(self, request: SandboxRequest, response: SandboxResponse) -> Iterator[str]:
        yield from super().differences(request, response)
        name = response.headers.get("x-amzn-ErrorType")
        if name is not None and self.errors.get(name) != response.status:
            yield f"error {response.status} {name}: not described"


@cache
def described() -> SesDescription:
    """Describe how Oncely sends an email."""
    operation = _operation("SendEmail")
    objects: dict[str, Any] = {"Error": {"message": "string"}}
    sends = ApiOperation(
        request=_type(operation.input_shape, objects),
        responses={"200": _type(operation.output_shape, objects), "default": "#Error"},
    )
    return SesDescription(
        operations={"{method} {requestUri}".format(**operation.http): sends},
        objects=objects,
        errors={
            one.name: one.metadata["error"]["httpStatusCode"] for one in operation.error_shapes
        },
    )


def compare_output(name: str, output: Mapping[str, Any]) -> Iterator[str]:
    """Where what an operation returns differs."""
    objects: dict[str, Any] = {}
    type_ = _type(_operation(name).output_shape, objects)
    yield from ApiDescription(operations={}, objects=objects).compare(type_, output, name)


@cache
def _operation(name: str) -> Any:  # noqa: ANN401  # botocore's
    return botocore.session.get_session().get_service_model("sesv2").operation_model(name)


def _type(shape: Any, objects: dict[str, Any]) -> Any:  # noqa: ANN401  # botocore's, and a type
    match shape.type_name:
        case "structure":
            if shape.name not in objects:
                objects[shape.name] = {}
                objects[shape.name] |= {
                    name if name in shape.required_members else f"{name}?": _type(member, objects)
                    for name, member in shape.members.items()
                }
            return f"#{shape.name}"
        case "list":
            return {"array": _type(shape.member, objects)}
        case "map":
            return {"map": _type(shape.value, objects)}
        case "string" if shape.enum:
            return {"enum": shape.enum}
        case kind:
            return _SCALARS.get(kind, kind)
