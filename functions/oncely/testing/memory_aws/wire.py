"""AWS in memory behind botocore, which validates, serializes, retries and parses every call.

The account answers each request as it would leave this machine, in the service's protocol. What a
hook raises is what botocore sees: an error response, or no response at all.
"""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree as ET  # only builds

from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from botocore.retries.standard import register_retry_handler

from oncely.aws.clients import AwsClients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from botocore.awsrequest import AWSPreparedRequest
    from botocore.config import Config
    from botocore.model import OperationModel, ServiceModel

    from oncely.testing.memory_aws.account import MemoryAws
    from oncely.testing.memory_aws.calls import MemoryClient

_Params = dict[str, Any]

_OK: Final = 200
_BAD_REQUEST: Final = 400
# Of errors that no model of a service names.
_STATUSES: Final = {
    "InternalError": 500,
    "InternalFailure": 500,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
}
# What the SDK adds to requests to S3.
_ADDED_BY_SDK: Final = frozenset(
    {
        *("ChecksumAlgorithm", "ChecksumCRC32", "ChecksumMode", "ContentEncoding"),
        *("ContentLength", "ContentMD5", "EncodingType"),
    }
)


class WireClients(AwsClients):
    """The shipped clients with the shipped settings and retries, but without pauses between them.

    A client takes 5 to 80 ms to make, so each is made once. Another `account` can be set: the
    clients then call that one.
    """

    def __init__(self, account: "MemoryAws") -> None:
        super().__init__()
        sdk: Any = self._session._session  # noqa: SLF001  # the environment may have neither
        sdk.set_credentials("memory", "memory")
        sdk.set_config_variable("region", "eu-west-1")
        self.account = account
        self._made: dict[tuple[str, Config], Any] = {}

    def new_client(self, service: str, config: "Config") -> Any:  # noqa: ANN401  # of any service
        if (known := self._made.get((service, config))) is not None:
            return known
        client = self._made[service, config] = super().new_client(service, config)
        wire = _Wire(client.meta.service_model, lambda: self.account.new_client(service))
        client.meta.events.register("before-send", wire.respond)
        _retry_at_once(client, config)
        return client


def _retry_at_once(client: Any, config: Any) -> None:  # noqa: ANN401  # of any service
    """Decide as the SDK does whether to retry, and do so without a pause."""
    name = client.meta.service_model.service_id.hyphenize()
    decide = register_retry_handler(client, config.retries["total_max_attempts"]).needs_retry
    events, event = client.meta.events, f"needs-retry.{name}"
    events.unregister(event, unique_id=f"retry-config-{name}")
    events.register(event, lambda **given: None if decide(**given) is None else 0)


class _Wire:
    """One service, at the other end of the wire."""

    def __init__(self, model: "ServiceModel", client: "Callable[[], MemoryClient]") -> None:
        self._model = model
        self._client = client
        self._protocol = model.metadata["protocol"]
        if "json" in model.metadata.get("protocols", ()):
            self._protocol = "json"  # as the SDK chooses

    def respond(self, request: "AWSPreparedRequest", event_name: str, **_: object) -> AWSResponse:
        operation = self._model.operation_model(event_name.rpartition(".")[2])
        params = self._parse(operation, request)
        try:
            found = getattr(self._client(), xform_name(operation.name))(**params)
        except ClientError as error:
            return self._error(request.url, error)
        headers, body = self._serialize(operation, found)
        return _response(request.url, _OK, headers, body)

    def _parse(self, operation: "OperationModel", request: "AWSPreparedRequest") -> _Params:
        shape: Any = operation.input_shape
        body = _body(request)
        if self._protocol == "query":
            fields = dict(parse_qsl(body.decode(), keep_blank_values=True))
            return {name: value for name, value in fields.items() if name in shape.members}
        if self._protocol == "rest-xml":
            return _parse_s3(shape, request, body)
        return cast("_Params", _from_json(shape, json.loads(body or b"{}")))

    def _serialize(
        self, operation: "OperationModel", found: Mapping[str, Any]
    ) -> tuple[dict[str, str], bytes]:
        shape = operation.output_shape
        values = {name: value for name, value in found.items() if name != "ResponseMetadata"}
        if shape is None:
            return {}, b""
        if self._protocol == "query":
            root = ET.Element(f"{operation.name}Response")
            _add_xml(root, shape.serialization["resultWrapper"], shape, values)
            return {}, ET.tostring(root)
        if self._protocol == "rest-xml":
            return _serialize_s3(shape, values)
        return {}, json.dumps(_to_json(shape, values)).encode()

    def _error(self, url: str, error: ClientError) -> AWSResponse:
        response: Mapping[str, Any] = error.response
        code, message = (response["Error"].get(name, "") for name in ("Code", "Message"))
        shape: Any = self._model.shape_for_error_code(code)
        modeled = {} if shape is None else shape.metadata.get("error", {})
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") or modeled.get(
            "httpStatusCode", _STATUSES.get(code, _BAD_REQUEST)
        )
        if not code:
            return _response(url, status, {}, b"")  # of a load balancer
        if self._protocol in {"query", "rest-xml"}:
            root = ET.Element("ErrorResponse" if self._protocol == "query" else "Error")
            inner = ET.SubElement(root, "Error") if self._protocol == "query" else root
            for name, text in (("Code", code), ("Message", message)):
                ET.SubElement(inner, name).text = text
            return _response(url, status, {}, ET.tostring(root))
        more = {
            name: _to_json(shape.members[name], value)
            for name, value in response.items()
            if name not in {"Error", "ResponseMetadata"}
        }
        body = json.dumps({"__type": code, "message": message, **more}).encode()
        return _response(url, status, {"x-amzn-ErrorType": code}, body)


class _Raw(BytesIO):
    def stream(self, **_: object) -> "Iterator[bytes]":
        yield self.read()


def _response(url: str, status: int, headers: Mapping[str, str], body: bytes) -> AWSResponse:
    common = {"Content-Length": str(len(body)), "x-amzn-RequestId": "request-in-memory"}
    given: Any = {**common, **headers}
    return AWSResponse(url, status, given, _Raw(body))


def _body(request: "AWSPreparedRequest") -> bytes:
    body: Any = request.body
    content = body.read() if hasattr(body, "read") else body or b""
    found: bytes = content.encode() if isinstance(content, str) else content
    if _headers(request).get("content-encoding") != "aws-chunked":
        return found
    chunks: list[bytes] = []
    left = found
    while True:
        size, _, left = left.partition(b"\r\n")
        if not (length := int(size, 16)):
            return b"".join(chunks)
        chunks.append(left[:length])
        left = left[length + len(b"\r\n") :]


def _headers(request: "AWSPreparedRequest") -> dict[str, str]:
    given: Any = request.headers  # values are text or bytes
    return {
        name.lower(): value.decode() if isinstance(value, bytes) else str(value)
        for name, value in given.items()
    }


def _parse_s3(shape: Any, request: "AWSPreparedRequest", body: bytes) -> _Params:  # noqa: ANN401  # a structure
    url = urlsplit(request.url)
    bucket, is_host, _ = str(url.hostname).partition(".s3.")
    path = unquote(url.path).removeprefix("/")
    if not is_host:
        bucket, _, path = path.partition("/")
    places = {
        "querystring": dict(parse_qsl(url.query, keep_blank_values=True)),
        "header": _headers(request),
        "uri": {"Bucket": bucket, **({"Key": path} if path else {})},
    }
    params: _Params = {}
    for name, member in shape.members.items():
        place = member.serialization.get("location")
        given = member.serialization.get("name", name)
        found = places.get(place, {}).get(given.lower() if place == "header" else given)
        if found is not None and name not in _ADDED_BY_SDK:
            params[name] = int(found) if member.type_name == "integer" else found
    if shape.serialization.get("payload") == "Body":
        params["Body"] = body
    return params


def _serialize_s3(shape: Any, values: Mapping[str, Any]) -> tuple[dict[str, str], bytes]:  # noqa: ANN401  # a structure
    headers, inner = {}, {}
    for name, value in values.items():
        member = shape.members[name]
        if member.serialization.get("location") == "header":
            headers[member.serialization["name"]] = _header(value)
        else:
            inner[name] = value
    payload = shape.serialization.get("payload")
    if payload is not None:
        return headers, inner[payload].read()
    root = ET.Element("Responses")
    _add_xml(root, shape.name, shape, inner)
    return headers, ET.tostring(root[0])


def _header(value: object) -> str:
    if isinstance(value, datetime):
        return format_datetime(value.astimezone(UTC), usegmt=True)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _add_xml(parent: ET.Element, name: str, shape: Any, value: Any) -> None:  # noqa: ANN401  # of any shape
    if shape.type_name == "list":
        is_flat = shape.serialization.get("flattened")
        inside = parent if is_flat else ET.SubElement(parent, name)
        each = shape.member.serialization.get("name", name if is_flat else "member")
        for one in value:
            _add_xml(inside, each, shape.member, one)
        return
    element = ET.SubElement(parent, name)
    match value:
        case Mapping():
            for key, inner in value.items():
                member = shape.members[key]
                _add_xml(element, member.serialization.get("name", key), member, inner)
        case datetime():
            element.text = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case bool():
            element.text = str(value).lower()
        case _:
            element.text = str(value)


def _from_json(shape: Any, value: Any) -> Any:  # noqa: ANN401  # of any shape
    match shape.type_name:
        case "structure":
            return {name: _from_json(shape.members[name], one) for name, one in value.items()}
        case "map":
            return {name: _from_json(shape.value, one) for name, one in value.items()}
        case "list":
            return [_from_json(shape.member, one) for one in value]
        case "blob":
            return base64.b64decode(value)
        case "timestamp":
            return datetime.fromtimestamp(value, UTC)
        case _:
            return value


def _to_json(shape: Any, value: Any) -> Any:  # noqa: ANN401  # of any shape
    match shape.type_name:
        case "structure":
            return {name: _to_json(shape.members[name], one) for name, one in value.items()}
        case "map":
            return {name: _to_json(shape.value, one) for name, one in value.items()}
        case "list":
            return [_to_json(shape.member, one) for one in value]
        case "blob":
            return base64.b64encode(value).decode()
        case "timestamp":
            return value.timestamp()
        case _:
            return value
