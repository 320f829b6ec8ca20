"""As much of the `aws` command as the pages use.

It reads botocore's own models: what AWS does not know is refused, and the call is made for real.
"""

import json
import sys
from typing import Any

import boto3
import jmespath  # type: ignore[import-untyped]  # botocore brings it; it has no types
from botocore import xform_name
from botocore.model import OperationModel, Shape


def main(words: list[str]) -> None:
    """`aws sqs send-message --queue-url … --message-body …`."""
    service, operation, *options = words
    client = boto3.client(service)  # type: ignore[call-overload]  # any service, by name
    names = {xform_name(name, "-"): name for name in client.meta.service_model.operation_names}
    model = client.meta.service_model.operation_model(names[operation])
    query, arguments = _arguments(model, options)
    answer = getattr(client, xform_name(model.name))(**arguments)
    answer.pop("ResponseMetadata", None)
    found = jmespath.search(query, answer) if query else answer
    print(json.dumps(found, indent=2, default=str))  # noqa: T201  # it is a command


def _arguments(model: OperationModel, options: list[str]) -> tuple[str | None, dict[str, Any]]:
    members = model.input_shape.members if model.input_shape else {}
    known = {f"--{xform_name(name, '-')}": (name, shape) for name, shape in members.items()}
    query: str | None = None
    arguments: dict[str, Any] = {}
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option == "--query":
            query = value
            continue
        name, shape = known[option]
        arguments[name] = _value(shape, value)
    return query, arguments


def _value(shape: Shape, value: str) -> Any:  # noqa: ANN401  # whatever the model says
    return value if shape.type_name in {"string", "blob"} else json.loads(value)


if __name__ == "__main__":
    main(sys.argv[1:])
