"""The model of an HTTP API, derived from its `HttpProvider` and from the jobs that call it.

A job is asked once for its two requests, with ids that no other value has. Where these ids are in
the requests says which effect a request performs or looks up, and what a response must show.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_origin
from urllib.parse import parse_qsl, unquote, urlencode

from oncely.contracts.job import AnyJob
from oncely.core.effect_outcomes import (
    Ambiguous,
    EffectOutcome,
    LookupFailed,
    LookupOutcome,
    Succeeded,
)
from oncely.core.new_row import row_from_message
from oncely.core.profiles import RetrySafety
from oncely.plugins.http_provider import HttpProvider
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import SandboxHandler, SandboxRequest, SandboxResponse
from oncely.testing.sandbox.ledger import ProviderLedger, RecordedEffect, job_key_in
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions
from oncely.testing.schedule import START

# Where a value stands in a request: its path, its query or its body, and the place in that.
Place: TypeAlias = tuple[str, str | int]
_FIRST_ID: Final = 918_273_001  # unlike any value of an example


@dataclass(frozen=True)
class HttpRequest:
    """A request by its values."""

    method: str
    values: Mapping[Place, Any]

    @classmethod
    def parse(cls, method: str, path: str, query: str, body: object) -> "HttpRequest":
        """Name each segment of the path, parameter of the query and value of the body."""
        values: dict[Place, Any] = {
            ("path", number): unquote(one) for number, one in enumerate(path.strip("/").split("/"))
        }
        values |= {("query", name): value for name, value in parse_qsl(query)}
        values |= {("body", name): value for name, value in _leaves(body)}
        return cls(method, values)


def _leaves(body: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(body, Mapping):
        for name, inner in body.items():
            yield from _leaves(inner, f"{prefix}{name}.")
    elif isinstance(body, list):
        for number, inner in enumerate(body):
            yield from _leaves(inner, f"{prefix}{number}.")
    elif prefix:
        yield prefix[:-1], body


@dataclass
class _Recorder:
    """Takes the place of the client, to see what a job would send."""

    effect: HttpRequest | None = None
    lookup: HttpRequest | None = None
    expect: Mapping[str, Any] = field(default_factory=dict)
    one_of: str | None = None

    def perform(self, method: str, path: str, *, json: object = None, **_: Any) -> EffectOutcome:  # noqa: ANN401  # of the client
        self.effect = self.effect or HttpRequest.parse(method, path, "", json)
        return Ambiguous("only recorded")

    def look_up(
        self,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        expect: Mapping[str, Any] | None = None,
        one_of: str | None = None,
    ) -> LookupOutcome:
        if self.lookup is None:
            self.lookup = HttpRequest.parse("GET", path, urlencode(params or {}), None)
            self.expect, self.one_of = dict(expect or {}), one_of
        return LookupFailed("only recorded")


@dataclass(frozen=True)
class RequestForm:
    """The requests of one job type: where they name its key, and what a lookup must show."""

    job: type[AnyJob]
    method: str  # of the effect
    effect: Mapping[str, Place]  # by field of the key
    lookup: Mapping[str, Place]
    shown: Mapping[str, Place | Any]  # fields of a response, by where the effect's request has them
    one_of: str | None  # where a search lists what it found

    @classmethod
    def of_job(cls, job: type[AnyJob]) -> "RequestForm | None":
        """Ask a job for its requests. Returns None if it has none without its business rows."""
        names = (job.key,) if isinstance(job.key, str) else job.key
        fields: dict[str, Any] = dict(job.example)
        for number, name in enumerate(names, start=_FIRST_ID):
            if not _is_fixed(job, name):
                fields[name] = number if isinstance(fields[name], int) else f"id-{number}"
        probe = job.model_validate({"job": job.job_type, "v": 1, **fields})
        recorder = _Recorder()
        row = row_from_message(probe, now=START, due_at=START, actor="model", reason="probed")
        call = replace(probe.new_call(row, None), http=lambda: recorder)
        for step in (probe.execute, probe.lookup):
            with suppress(Exception):  # it needs its business rows, or another client
                step(call)
        effect, lookup = recorder.effect, recorder.lookup
        if effect is None:
            return None
        wanted = {name: getattr(probe, name) for name in names}
        shown = {
            name: next((at for at, one in effect.values.items() if one == value), value)
            for name, value in recorder.expect.items()
        }
        named_in = {} if lookup is None else _places(lookup, wanted)
        return cls(job, effect.method, _places(effect, wanted), named_in, shown, recorder.one_of)

    def key_in(self, request: HttpRequest, places: Mapping[str, Place]) -> str | None:
        """The key of the job that a request names. Returns None if it names no whole key."""
        values = {name: request.values.get(at) for name, at in places.items()}
        names = (self.job.key,) if isinstance(self.job.key, str) else self.job.key
        known = {name: self.job.example.get(name) for name in names if _is_fixed(self.job, name)}
        if any(values.get(name, known.get(name)) is None for name in names):
            return None
        fields: dict[str, Any] = {**self.job.example, **known, **values}
        with suppress(Exception):  # not an id
            return self.job.model_construct(**fields).job_key()
        return None


def _is_fixed(job: type[AnyJob], name: str) -> bool:
    """Whether a field has one of a few values, so that no id can take its place."""
    return get_origin(job.model_fields[name].annotation) is Literal


def _places(request: HttpRequest, wanted: Mapping[str, Any]) -> dict[str, Place]:
    found = {
        name: next((at for at, one in request.values.items() if str(one) == str(value)), None)
        for name, value in wanted.items()
    }
    return {name: at for name, at in found.items() if at is not None}


@dataclass(frozen=True)
class HttpEffect:
    """An effect that happened."""

    reference: str
    at: datetime
    job_key: str | None  # None if the request names no whole key
    idempotency_key: str
    request: HttpRequest


class HttpLedger(ProviderLedger):
    """The effects that really happened."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    @property
    def done(self) -> Sequence[HttpEffect]:
        return self.all(HttpEffect)

    def effects(self) -> tuple[RecordedEffect, ...]:
        return tuple(
            RecordedEffect(
                kind=self._kind,
                key=one.job_key or job_key_in(one.idempotency_key) or one.reference,
                reference=one.reference,
            )
            for one in self.done
        )


class HttpModel(ProviderSandbox):
    """An API as its plug-in declares it: it forgets keys and shows new effects late."""

    provider: ClassVar[HttpProvider]
    forms: ClassVar[tuple[RequestForm, ...]]
    # What a second request for the same key gets, if the API refuses it: 409 or 422.
    duplicate_status: ClassVar[int | None] = None
    lag: ClassVar[timedelta | None] = None  # of its lookups, if not as declared
    api_key = "key-of-the-model"
    fault_rates = (
        (FaultKind.ACCEPT_THEN_DROP, "perform", 4),
        (FaultKind.ERROR_AFTER, "perform", 2),
        (FaultKind.OUTAGE, "perform", 2),
        (FaultKind.RATE_LIMIT, "perform", 2),
        (FaultKind.OUTAGE, "look_up", 4),
    )

    ledger: HttpLedger

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.ledger = HttpLedger(f"effects at {self.provider.name}")
        self.arrival: datetime | None = None  # of a request that is performed later
        self.keys: dict[str, tuple[datetime, str]] = {}  # the reference of each remembered key

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        del request
        return SandboxResponse(status, {"error": status})

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        path = request.path.removeprefix(self.path_prefix.rstrip("/"))
        body = json.loads(request.body) if request.body else None
        parsed = HttpRequest.parse(request.method, path, request.query, body)
        if not self._is_authorized(request):
            return self.error_response(request, status=401)
        if request.method == "GET":
            return self._look_up(parsed)
        return wrap(lambda: self._perform(request, parsed))

    def _is_authorized(self, request: SandboxRequest) -> bool:
        sent = " ".join(f"{name}={value}" for name, value in request.headers.items())
        return self.provider.auth in {None, "basic"} or self.api_key in sent

    def _perform(self, request: SandboxRequest, parsed: HttpRequest) -> SandboxResponse:
        now, key = self.arrival or self.options.now(), request.headers.get(self._key_header, "")
        with self.ledger.lock:
            first = self.keys.get(key)
            window = self.options.key_window
            window = self.provider.profile.key_ttl if window is None else window
            honors = self.options.honors_idempotency_keys and window is not None
            if key and first is not None and honors and window and now - first[0] < window:
                done = self.ledger.find(HttpEffect, first[1])
                return self._shown(201, done) if done else self.error_response(request, status=500)
            job_key = self._key_of(parsed, is_lookup=False)
            same = [one for one in self.ledger.done if one.job_key == job_key is not None]
            if same and self._is_natural(parsed):
                return self._shown(200, same[0])
            if same and self.duplicate_status is not None:
                return self.error_response(request, status=self.duplicate_status)
            effect = HttpEffect(self.options.new_id("ref"), now, job_key, key, parsed)
            self.ledger.put(effect.reference, effect)
            self.keys.setdefault(key, (now, effect.reference))
            return self._shown(201, effect)

    @property
    def _key_header(self) -> str:
        return self.provider.idempotency_header.lower()

    def _look_up(self, parsed: HttpRequest) -> SandboxResponse:
        now = self.options.now()
        lag = self.provider.profile.lookup_lag if self.lag is None else self.lag
        key = self._key_of(parsed, is_lookup=True)
        found = [
            one
            for one in self.ledger.done
            if key is not None and one.job_key == key and lag is not None and one.at + lag <= now
        ]
        listed = next((one.one_of for one in self.forms if one.one_of is not None), None)
        if listed is not None and any(place == "query" for place, _ in parsed.values):
            entries = [self._body(one) for one in found]
            if not listed:  # the body is the list
                return SandboxResponse(200, {}, text=json.dumps(entries))
            return SandboxResponse(200, _nested({listed: entries}))
        if not found:
            return SandboxResponse(404, _nested(self.provider.absent_body) or {"error": 404})
        return self._shown(200, found[0])

    def _key_of(self, parsed: HttpRequest, *, is_lookup: bool) -> str | None:
        keys = (one.key_in(parsed, one.lookup if is_lookup else one.effect) for one in self.forms)
        return next((key for key in keys if key is not None), None)

    def _is_natural(self, parsed: HttpRequest) -> bool:
        """Whether repeating this effect changes nothing."""
        natural = (one for one in self.forms if one.job.policy.safety is RetrySafety.NATURAL)
        return any(one.key_in(parsed, one.effect) is not None for one in natural)

    def _shown(self, status: int, effect: HttpEffect) -> SandboxResponse:
        return SandboxResponse(status, self._body(effect))

    def _body(self, effect: HttpEffect) -> dict[str, Any]:
        sent = {
            at: value for (where, at), value in effect.request.values.items() if where == "body"
        }
        shown: dict[str, Any] = {str(name): value for name, value in sent.items()}
        for form in self.forms:
            shown |= {
                name: effect.request.values.get(at, at) if isinstance(at, tuple) else at
                for name, at in form.shown.items()
            }
        answers = self.provider.answers
        if answers.field:
            shown[answers.field] = next(v for v, one in answers.values.items() if one is Succeeded)
        if self.provider.reference is not None:
            shown[self.provider.reference] = effect.reference
        return _nested(shown)


def _nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with values at dotted paths."""
    body: dict[str, Any] = {}
    for path, value in fields.items():
        *outer, last = path.split(".")
        inner = body
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return body


def http_model(
    provider: HttpProvider,
    jobs: Sequence[type[AnyJob]],
    **declared: Any,  # noqa: ANN401  # of the class
) -> type[HttpModel]:
    """Derive the model of an API from the jobs that call it."""
    callers = [one for one in jobs if provider in one.all_providers()]
    forms = tuple(form for one in callers if (form := RequestForm.of_job(one)) is not None)
    path, methods = f"{provider.local_path}/", {one.method for one in forms}
    members = {
        "provider": provider,
        "forms": forms,
        "path_prefix": path,
        "requests": {
            "look_up": {"method": "GET", "path": f"{path}*"},
            # Of several methods, faults hit all requests.
            "perform": {"method": methods.pop() if len(methods) == 1 else "*", "path": f"{path}*"},
        },
        **declared,
    }
    return type(f"{provider.name.title()}Model", (HttpModel,), members)
