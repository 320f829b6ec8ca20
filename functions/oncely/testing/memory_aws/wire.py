"""AWS in memory behind botocore, which validates, serializes, retries and parses every call.

The account answers each request as it would leave this machine, in the service's protocol. What a
hook raises is what botocore sees: an error response, or no response at all.
"""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from botocore import UNSIGNED, xform_name
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from botocore.retries.standard import register_retry_handler

from oncely.aws.clients import AwsClients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.awsrequest import AWSPreparedRequest
    from botocore.config import Config
    from botocore.model import OperationModel, ServiceModel

    from oncely.testing.memory_aws.account import MemoryAws
    from oncely.testing.memory_aws.calls import MemoryClient

_Params = dict[str, Any]
_Converters = Mapping[str, Callable[[Any], object]]  # by the type of a shape

_OK: Final = 200
_BAD_REQUEST: Final = 400
_FROM_JSON: Final[_Converters] = {"blob": base64.b64decode}
_TO_JSON: Final[_Converters] = {
    "blob": lambda value: base64.b64encode(value).decode(),
    "timestamp": datetime.timestamp,
}
# What the SDK adds to requests to S3.
_ADDED_BY_SDK: Final = frozenset(
    {
        *("ChecksumAlgorithm", "ChecksumCRC32", "ChecksumMode", "ContentEncoding"),
        *("ContentLength", "ContentMD5", "EncodingType"),
    }
)


class WireClients(AwsClients):
    """The shipped clients with the shipped settings and retries, but without pauses and signatures.

    A client takes 5 to 80 ms to make, so each is made once. Another `account` can be set: the
    clients then call that one.
    """

    def __init__(self, account: "MemoryAws") -> None:
        super().__init__()
        sdk: Any = self._session._session  # noqa: SLF001  # otherwise it searches the environment
        sdk.set_credentials("memory", "memory")
        sdk.set_config_variable("region", "eu-west-1")
        self.account = account
        self._made: dict[tuple[str, Config], Any] = {}

    def make(self, service: str, config: "Config") -> Any:  # noqa: ANN401  # of any service
        if (known := self._made.get((service, config))) is not None:
            return known
        client = self._made[service, config] = super().make(service, config)
        wire = _Wire(client.meta.service_model, lambda: self.account.new_client(service))
        client.meta.events.register("before-send", wire.respond)
        client.meta.events.register("choose-signer", lambda **_: UNSIGNED)
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
        self._model, self._client = model, client
        # As the SDK chooses.
        has_json = "json" in model.metadata.get("protocols", ())
        self._protocol = "json" if has_json else model.metadata["protocol"]

    def respond(self, request: "AWSPreparedRequest", event_name: str, **_: object) -> AWSResponse:
        operation = self._model.operation_model(event_name.rpartition(".")[2])
        params = self._parse(operation, request)
        try:
            found = getattr(self._client(), xform_name(operation.name))(**params)
        except ClientError as error:
            return self._error(request.url, error)
        values = {name: value for name, value in found.items() if name != "ResponseMetadata"}
        headers, body = self._serialize(operation.output_shape, values)
        return _response(request.url, _OK, headers, body)

    def _parse(self, operation: "OperationModel", request: "AWSPreparedRequest") -> _Params:
        shape: Any = operation.input_shape
        body = _body(request)
        if self._protocol == "rest-xml":
            return _parse_s3(shape, request, body)
        if self._protocol == "query":
            fields = parse_qsl(body.decode(), keep_blank_values=True)
            return {name: value for name, value in fields if name in shape.members}
        found: _Params = _convert(shape, json.loads(body), _FROM_JSON)
        return found

    def _serialize(self, shape: Any, values: _Params) -> tuple[dict[str, str], bytes]:  # noqa: ANN401  # a structure
        if shape is None:
            return {}, b""
        if self._protocol == "rest-xml":
            return _serialize_s3(shape, values)
        if self._protocol == "query":
            result = _to_xml(shape.serialization["resultWrapper"], shape, values)
            return {}, f"<Response>{result}</Response>".encode()
        return {}, json.dumps(_convert(shape, values, _TO_JSON)).encode()

    def _error(self, url: str, error: ClientError) -> AWSResponse:
        more: _Params = dict(error.response)
        code, message = (more["Error"][name] for name in ("Code", "Message"))
        shape: Any = self._model.shape_for_error_code(code)
        status = more.pop("ResponseMetadata", {}).get("HTTPStatusCode", _BAD_REQUEST)
        if self._protocol in {"query", "rest-xml"}:
            parts = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
            body = f"<Error>{parts}</Error>"
            if self._protocol == "query":
                body = f"<ErrorResponse>{body}</ErrorResponse>"
            return _response(url, status, {}, body.encode())
        del more["Error"]
        fields = _convert(shape, more, _TO_JSON) if more else {}
        body = json.dumps({"__type": code, "message": message, **fields})
        return _response(url, status, {"x-amzn-ErrorType": code}, body.encode())


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
    left: bytes = content.encode() if isinstance(content, str) else content
    if _headers(request).get("content-encoding") != "aws-chunked":
        return left
    found = b""
    while True:
        size, _, left = left.partition(b"\r\n")
        if not (length := int(size, 16)):
            return found
        found += left[:length]
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


def _serialize_s3(shape: Any, values: _Params) -> tuple[dict[str, str], bytes]:  # noqa: ANN401  # a structure
    named = {
        name: shape.members[name].serialization["name"]
        for name in values
        if shape.members[name].serialization.get("location") == "header"
    }
    headers = {header: _text(values.pop(name)) for name, header in named.items()}
    payload = shape.serialization.get("payload")
    body = (
        _to_xml(shape.name, shape, values).encode() if payload is None else values[payload].read()
    )
    return headers, body


def _to_xml(name: str, shape: Any, value: Any) -> str:  # noqa: ANN401  # of any shape
    if shape.type_name == "list":  # S3's lists have no element of their own
        each = shape.member.serialization.get("name", name)
        return "".join(_to_xml(each, shape.member, one) for one in value)
    if shape.type_name == "structure":
        members = ((key, shape.members[key], inner) for key, inner in value.items())
        content = "".join(
            _to_xml(member.serialization.get("name", key), member, inner)
            for key, member, inner in members
        )
    else:
        content = escape(_text(value))
    return f"<{name}>{content}</{name}>"


def _text(value: object) -> str:
    """A value in a header or in XML. The SDK reads any format of a time."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _convert(shape: Any, value: Any, converters: _Converters) -> Any:  # noqa: ANN401  # of any shape
    match shape.type_name:
        case "structure":
            return {
                name: _convert(shape.members[name], one, converters) for name, one in value.items()
            }
        case "map":
            return {name: _convert(shape.value, one, converters) for name, one in value.items()}
        case "list":
            return [_convert(shape.member, one, converters) for one in value]
        case kind:
            return converters[kind](value) if kind in converters else value
