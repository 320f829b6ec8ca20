"""A job type in one class: its fields are the message, its methods the steps."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cached_property
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    cast,
    get_args,
    get_origin,
)

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypeVar

from oncely.aws.business_tables import BusinessTable
from oncely.aws.sqs import MessageSender
from oncely.contracts.description import RETRY_DESCRIPTIONS, JobDescription
from oncely.contracts.message import RunAt, encode_message
from oncely.contracts.table_schema import TableSchema
from oncely.core.effect_outcomes import Anomalous, BusinessWrite, Json, LookupOutcome, Succeeded
from oncely.core.ended_jobs import DataOwner
from oncely.core.job_row import JobRow, known_values
from oncely.core.job_type import JobType
from oncely.core.keys import JobKey, indexable_id, is_job_type, job_key
from oncely.core.profiles import ProviderProfile, RetryLimits, RetryPolicy, RetrySafety
from oncely.core.schedule import MAX_SCHEDULE_LIMIT, Clock
from oncely.core.store import JobStore
from oncely.core.text import format_duration
from oncely.plugins.http_provider import HttpProvider
from oncely.plugins.provider import AnyProvider, Provider

F = TypeVar("F", default=None)  # the facts of a precheck; the smallest jobs have none
T = TypeVar("T")
S = TypeVar("S", bound="JobSettings")
_Tables: TypeAlias = tuple[TableSchema | str, ...]

_DEFAULTS: Final = RetryLimits()
_STEPS: Final = (
    *("precheck", "key_scope", "prepare", "find_prepared", "execute", "lookup", "confirm"),
    *("close", "lookup_closed", "on_success", "on_failure", "on_cancel", "on_pending"),
    *("follow_ups", "resubmission", "missing_jobs"),
)
_WRITING_STEPS: Final = ("on_success", "on_failure", "on_cancel", "on_pending")
# Field names that almost always hold personal data.
_PERSONAL_NAMES: Final = frozenset(
    {"address", "customer_id", "email", "first_name", "full_name", "last_name", "phone"}
)
_MESSAGE_FIELDS: Final = frozenset({"job", "v", "run_at"})


class JobSettings(BaseModel):
    """Settings of job types. The field `voucher_template` is read from VOUCHER_TEMPLATE.

    Never a secret: the stack's outputs show them, so that commands have them as well.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    @classmethod
    def env_vars(cls) -> dict[str, str]:
        """Return the name of each field's environment variable."""
        return {field: field.upper() for field in cls.model_fields}

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Parse them, or raise pydantic's ValidationError."""
        names = cls.env_vars().items()
        values = {field: value for field, name in names if (value := environ.get(name))}
        return cls.model_validate(values)


class Tools(Protocol):
    """What the steps of a job may use. Each is created on first use."""

    @property
    def clock(self) -> Clock:
        """The clock, for a precheck that depends on the time."""

    def table(self, name: str) -> BusinessTable:
        """Return a business table by its short name, such as `orders`."""

    def retention(self, table: str) -> timedelta:
        """Return how long rows of a business table are kept, if its schema has a default."""

    def job_store(self) -> JobStore:
        """Return the job table, to read other jobs."""

    def secret(self, name: str) -> str:
        """Return a secret by its short name, such as `acme`."""

    def job_settings(self, settings_type: type[S]) -> S:
        """Return the settings that the job declares."""

    def message_sender(self, queue: str) -> MessageSender:
        """Return the sender of a queue by its short name, such as `sync`."""

    def provider(self, plugin: Provider[T, Any]) -> T:
        """Return the client of one of the job's providers."""

    def is_configured(self, plugin: AnyProvider) -> bool:
        """Return whether a provider's optional settings are present, such as a sender address."""


class Job(BaseModel, JobType[F], Generic[F]):
    """A job type. Subclass it; as `Job[Order]`, if its precheck reads facts such as an `Order`.

    The fields of the class are the message of a producer. It is strict: a wrong type is rejected,
    never coerced. `key`, `provider` and `execute` are required, everything else has a default.
    """

    # Built lazily: a worker imports every job type but runs only those of one queue. What is not
    # annotated is a declaration, and `_class_faults` names one that is not known.
    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, defer_build=True, ignored_types=(object,)
    )

    job: str = ""  # its job type; each subclass accepts only its own
    v: Literal[1] = 1
    # The earliest time to run. Not one of the job's values: another message may change it.
    run_at: RunAt | None = None

    # What identifies it: the names of one or more fields, each required.
    key: ClassVar[str | tuple[str, ...]]
    key_prefix: ClassVar[str] = ""  # of the first one: `order_`
    # Who performs the effect; if business rows choose one of several, by name, the default first.
    provider: ClassVar[AnyProvider | Mapping[str, AnyProvider]]
    # In place of a provider, if the effect calls none, such as a file that the job builds.
    profile: ClassVar[ProviderProfile]
    job_type: ClassVar[str]  # `voucher.issue` for VoucherIssue
    queue: ClassVar[str]  # the name of its provider
    # The shortest message of a producer. Derived from the required fields.
    example: ClassVar[Mapping[str, Json]]

    # `keyed` if the provider remembers idempotency keys, else `lookup` if there is a lookup, else
    # `at_most_once`. State `natural` for an effect that may be repeated, such as an upsert.
    safety: ClassVar[Literal["natural", "keyed", "lookup", "at_most_once"] | None] = None
    lookup_lag: ClassVar[timedelta | None] = None  # of this lookup, if not the provider's
    key_ttl: ClassVar[timedelta | None] = None  # where the provider documents none
    max_attempts: ClassVar[int] = _DEFAULTS.max_attempts
    max_consecutive_timeouts: ClassVar[int] = _DEFAULTS.max_consecutive_timeouts
    max_age: ClassVar[timedelta] = _DEFAULTS.max_age
    max_processing_time: ClassVar[timedelta] = _DEFAULTS.max_processing_time
    grace_period: ClassVar[timedelta] = _DEFAULTS.grace_period
    tolerates_row_changes: ClassVar[bool] = False
    may_fail_later: ClassVar[bool] = False

    takes_money: ClassVar[bool] = False  # included in the answer to "was I charged twice?"
    returns_money: ClassVar[bool] = False  # an audit looks for its refunds
    # How long the row of an ended job is kept as proof that it ran. The default is the stage's row
    # retention for a natural effect, 7 years for one that takes money, and 400 days otherwise.
    proof_retention: ClassVar[timedelta | None] = None
    # How far ahead a `run_at` is honored. The default is 0, so none, for a job that moves money,
    # and 365 days otherwise. If you lower it, jobs that are scheduled further ahead run early.
    schedule_limit: ClassVar[timedelta | None] = None
    limits_resubmissions: ClassVar[bool] = False  # `requires_failed` obeys the stage's limits
    publishes_events: ClassVar[bool] = False  # publish each ended job on the event bus

    # Business tables, in both if a table is read and written. One that another stack owns is a
    # short name without a schema. A worker cannot write a table that is only read.
    reads: ClassVar[_Tables] = ()
    writes: ClassVar[_Tables] = ()
    settings_of: ClassVar[tuple[AnyProvider, ...]] = ()  # not called, only asked if configured
    secrets: ClassVar[tuple[str, ...]] = ()  # beyond the API keys of its providers
    settings: ClassVar[type[JobSettings] | None] = None  # read with `self.tools.job_settings`
    sends_to: ClassVar[tuple[str, ...]] = ()  # queues that its effect sends to
    personal_fields: ClassVar[tuple[str, ...]] = ()  # those that hold personal data
    data_owner: ClassVar[DataOwner | None] = None  # whose data it is: `oncely erase` finds it

    # The job in plain language, beside its docstring, which says what happens at the provider.
    business_rows: ClassVar[str]  # which rows change
    when_finished: ClassVar[str]
    when_failed: ClassVar[str] = "the provider declined it."
    review_when: ClassVar[tuple[str, ...]] = ()  # beyond the rules for every job type
    done_verb: ClassVar[str] = "done"  # completes "was I …?" and "not … yet": charged
    waits_for: ClassVar[str | None] = None  # business rows that may arrive after the message

    @classmethod
    def __class_getitem__(cls, facts: object) -> Any:  # noqa: ANN401  # a class
        """Return the class itself: the facts are for the type checker, and cost no class."""
        del facts
        return cls

    @classmethod
    def __pydantic_init_subclass__(cls, **more: Any) -> None:  # noqa: ANN401  # of pydantic
        """Derive what the class does not declare, or raise TypeError with the author's mistake."""
        super().__pydantic_init_subclass__(**more)
        is_base = _is_base_class(cls)
        for fault in _spelling_faults(cls) if is_base else _class_faults(cls):
            raise TypeError(f"{cls.__name__}: {fault}")
        if is_base:
            return
        cls.job_type = _derive_job_type(cls)
        job = cls.model_fields["job"]
        job.annotation, job.default = Literal[cls.job_type], cls.job_type  # type: ignore[assignment]  # a type
        cls.policies = _derive_policies(cls)
        if not hasattr(cls, "queue"):
            cls.queue = next(iter(cls.policies))
        if "example" not in vars(cls):
            cls.example = _derive_example(cls)

    # What identifies a job.

    def key_parts(self) -> tuple[str | int, ...]:
        """Return the business ids of its key: the fields that `key` names."""
        names = (self.key,) if isinstance(self.key, str) else self.key
        return tuple(getattr(self, name) for name in names)

    def job_key(self) -> JobKey:
        """Return the business identity of the job, such as `voucher.issue:18452`."""
        return job_key(self.job_type, *self.key_parts(), prefix=self.key_prefix)

    def subject_id(self) -> str | None:
        """Return the business id that support agents search by: the first of its key.

        Returns None if there is none. Each row is indexed by it, unless `keys_for_subject` derives
        the keys.
        """
        return str(self.key_parts()[0])

    @classmethod
    def keys_for_subject(cls, subject: str) -> Iterable[JobKey]:
        """Derive every key that a business id can have, in the order of use.

        A search reads these keys, so rows need no index entry.
        """
        is_whole_key = isinstance(cls.key, str) and not overrides(cls, "key_parts", "subject_id")
        return (job_key(cls.job_type, subject, prefix=cls.key_prefix),) if is_whole_key else ()

    def indexed_subject(self) -> str | None:
        """Return the business id to index the row by. Returns None if its keys can be derived."""
        subject = self.subject_id()
        has_keys = subject is not None and any(self.keys_for_subject(subject))
        return None if has_keys else indexable_id(subject)

    def uniqueness_key(self) -> str:
        """Return what `unique_for` keeps unique: the key, or a part of it for a repeatable job."""
        return self.job_key()

    @classmethod
    def tenant(cls, values: Mapping[str, Json]) -> str | None:
        """Return the tenant, for a fair share of the queue. Returns None if there is none.

        `values` are the fields of the message, and the customer of a claimed job.
        """
        customer = values.get("customer_id")
        return customer if isinstance(customer, str) else None

    # The message.

    def to_dict(self) -> dict[str, Json]:
        """Return the message as the row stores it: the fields that the producer set, no time."""
        fields = self.model_dump(
            mode="json",
            by_alias=True,
            exclude={"job", "v", "run_at"},
            exclude_none=True,
            exclude_unset=True,
        )
        return {"job": self.job, "v": self.v, **fields}

    def to_sent_dict(self) -> dict[str, Json]:
        """Return the message as a queue holds it: with its run time."""
        time = {} if self.run_at is None else {"run_at": self.run_at.isoformat()}
        return {**self.to_dict(), **time}

    def to_body(self) -> str:
        """Return the message as text, for a queue."""
        return encode_message(self.to_sent_dict())

    def business_values(self) -> dict[str, Json]:
        """Return what the fingerprint covers without a precheck: the fields that are not defaults.

        A field that is added later must not change it.
        """
        return self.model_dump(mode="json", exclude={"job", "v", "run_at"}, exclude_defaults=True)

    @property
    def requested_run_at(self) -> datetime | None:
        return self.run_at

    @classmethod
    def example_message(cls) -> dict[str, Json]:
        """Return the shortest message of a producer."""
        return {"job": cls.job_type, "v": 1, **cls.example}

    @classmethod
    def message_schema(cls) -> dict[str, Any]:
        """Return the JSON schema of a queue message, which cannot set the time of a payment."""
        schema = cls.model_json_schema()
        schema["required"] = ["job", "v", *schema.get("required", ())]
        for name in ("job", "v"):
            del schema["properties"][name]["default"]
        if cls.moves_money():
            del schema["properties"]["run_at"]
        return schema

    # A job that runs.

    def with_tools(self, tools: Tools, provider: str | None = None) -> Self:
        """Return this job with what its steps may use, at one of its providers."""
        job: Self = self.model_copy()
        policy = self.policies.get(provider or "") or next(iter(self.policies.values()))
        # Beside its fields, as a cached property keeps what it read.
        vars(job).update(tools=tools, provider_name=provider, policy=policy)
        return job

    @classmethod
    def without_message(cls, tools: Tools, provider: str | None) -> Self:
        """Return a job whose message cannot be read, for the steps that need only its row."""
        unread = cast("Self", cls.model_construct())
        return unread.with_tools(tools, provider)

    def with_provider(self, name: str | None) -> Self:
        return self.with_tools(self.tools, name)

    @cached_property
    def tools(self) -> Tools:
        """What its steps may use: tables, clients, settings and secrets."""
        raise RuntimeError(
            f"{type(self).__name__} has no tools here: only a job that Oncely runs has some"
        )

    @cached_property
    def provider_name(self) -> str | None:
        """The plug-in of this job, if business rows choose one of several."""
        return None

    def key_scope(self) -> str:
        """Return the scope in which idempotency keys are unique now. A retry needs the same.

        It is the address of an HTTP API: another one has not seen the key.
        """
        plugin = next(iter(self._chosen_providers()), None)
        return self.tools.provider(plugin).address if isinstance(plugin, HttpProvider) else ""

    def http_client(self) -> Any:  # noqa: ANN401  # of its provider
        return self.tools.provider(next(iter(self._chosen_providers())))

    def require_secrets(self) -> None:
        """Read its secrets. Raises NotConfiguredError if one cannot be used."""
        for name in self.secret_names(self._chosen_providers()):
            self.tools.secret(name)

    def _chosen_providers(self) -> Iterable[AnyProvider]:
        if not self.chooses_provider():
            return self.all_providers()
        return [one for one in self.all_providers() if one.name == self.provider_name]

    def send_message(self, row: JobRow) -> bool:
        """Send the message of a row again. Returns False if the queue did not accept it."""
        sender = self.tools.message_sender(self.queue)
        groups = [self.tenant(known_values(row))]
        return all(sender.send([encode_message(row.message)], groups=groups))

    # What support agents and operators see or do.

    def resubmission(self) -> "AnyJob | None":
        """Return the job that resubmits this one after a decline. Returns None if there is none."""
        return None

    @classmethod
    def success_summary(cls, row: JobRow) -> str:
        """Describe a finished job for a support agent."""
        if row.is_unconfirmed:
            return f"The business rows say it was {cls.done_verb}. No provider confirmed it."
        return f"Done: {cls.describe_fields().success}"

    @classmethod
    def references(cls, outcome: LookupOutcome) -> frozenset[str]:
        """Return the ids that an operator may enter for this effect, such as a charge id."""
        ref = outcome.ref if isinstance(outcome, Succeeded | Anomalous) else None
        return frozenset(() if ref is None else (ref,))

    @classmethod
    def missing_jobs(cls, tools: Tools, *, now: datetime) -> Iterable["AnyJob"]:
        """Find jobs that the business rows request and that may never have been sent."""
        del tools, now
        return ()

    @classmethod
    def erase_record(
        cls, tools: Tools, record_id: str, *, now: datetime, has_open_jobs: bool
    ) -> BusinessWrite | None:
        """Return the write that erases the data of a record from a business row.

        Returns None if no data is left in it. An open job may still write the row, so what the
        write leaves must prevent that.
        """
        del tools, record_id, now, has_open_jobs
        return None

    @classmethod
    def erases_records(cls) -> bool:
        """Return whether its business rows hold the data of a record."""
        return overrides(cls, "erase_record")

    @classmethod
    def detects_missing_jobs(cls) -> bool:
        """Return whether it can find jobs that were never sent."""
        return overrides(cls, "missing_jobs")

    # What a stack needs for it.

    @classmethod
    def chooses_provider(cls) -> bool:
        """Return whether business rows choose one of several providers."""
        return isinstance(getattr(cls, "provider", None), Mapping)

    @classmethod
    def all_providers(cls) -> tuple[AnyProvider, ...]:
        """Return the plug-ins that perform its effect."""
        declared = getattr(cls, "provider", None)
        if isinstance(declared, Mapping):
            return tuple(declared.values())
        return () if declared is None else (declared,)

    @classmethod
    def all_tables(cls) -> _Tables:
        """Return the business tables that it reads or writes."""
        return tuple(dict.fromkeys((*cls.reads, *cls.writes)))

    @classmethod
    def table_names(cls) -> tuple[str, ...]:
        """Return the short names of the business tables that it reads or writes."""
        return _names(cls.all_tables())

    @classmethod
    def read_table_names(cls) -> tuple[str, ...]:
        """Return the short names of the business tables that it reads."""
        return _names(cls.reads)

    @classmethod
    def written_table_names(cls) -> tuple[str, ...]:
        """Return the short names of the business tables that it writes."""
        return _names(cls.writes)

    @classmethod
    def secret_names(cls, providers: Iterable[AnyProvider] | None = None) -> tuple[str, ...]:
        """Return the short names of its own secrets and of the API keys of some providers."""
        chosen = cls.all_providers() if providers is None else providers
        own = cls.all_providers()
        keys = (one.secret_name for one in chosen if one in own and one.secret_name)
        return (*cls.secrets, *keys)

    @classmethod
    def describe_fields(cls) -> JobDescription:
        """Describe the job as fields, for the admin page and `--json`."""
        timeouts = f"{cls.max_consecutive_timeouts} timeouts in a row"
        hours = format_duration(cls.max_age)
        stops = (
            f"after {timeouts}, {cls.max_attempts} attempts, or {hours} without an outcome",
            "when a message has the same key and other business values",
            "when the effect is done but the business rows reject the write",
        )
        grace = format_duration(cls.grace_period)
        waits = () if cls.waits_for is None else (f"when it waited {grace} for {cls.waits_for}",)
        rows = ", ".join(cls.written_table_names()) or "none"
        provider = cls.policy.profile.name
        return JobDescription(
            job_type=cls.job_type,
            queue=cls.queue,
            effect=" ".join(_docstring(cls).split()),
            business_rows=getattr(cls, "business_rows", f"{rows}."),
            success=getattr(cls, "when_finished", f"{provider} confirmed it."),
            failure=cls.when_failed,
            retry=cls._describe_retries(),
            review_when=(*stops, *waits, *cls.review_when),
        )

    @classmethod
    def _describe_retries(cls) -> str:
        by_safety: dict[RetrySafety, list[str]] = {}
        for policy in cls.policies.values():
            by_safety.setdefault(policy.safety, []).append(policy.profile.name)
        if len(by_safety) == 1:
            return RETRY_DESCRIPTIONS[cls.policy.safety]
        return " ".join(
            f"{' and '.join(names)}: {RETRY_DESCRIPTIONS[safety]}"
            for safety, names in by_safety.items()
        )


AnyJob: TypeAlias = Job[Any]


def _names(tables: _Tables) -> tuple[str, ...]:
    return tuple(one if isinstance(one, str) else one.name for one in tables)


def providers_of(jobs: Iterable[type[AnyJob]]) -> tuple[AnyProvider, ...]:
    """Return the plug-ins that job types call, each once, sorted by name."""
    plugins = {plugin.name: plugin for one in jobs for plugin in one.all_providers()}
    return tuple(plugins[name] for name in sorted(plugins))


def overrides(cls: type[AnyJob], *names: str) -> bool:
    """Return whether a job defines one of these steps itself."""
    base: Any = Job  # as abstract as it is
    return any(_function(cls, name) is not _function(base, name) for name in names)


def _function(cls: type[AnyJob], name: str) -> object:
    # Each access to a class method creates a new bound method.
    found = getattr(cls, name)
    return getattr(found, "__func__", found)


def _is_base_class(cls: type[AnyJob]) -> bool:
    """Return whether it only holds what several jobs share: it has no effect of its own."""
    return not overrides(cls, "execute")


def _docstring(cls: type[AnyJob]) -> str:
    """Return the text of the class, or of the job that it is derived from."""
    texts = (inspect.cleandoc(one.__doc__) for one in _own_classes(cls) if one.__doc__)
    return next(texts, "")


def _own_classes(cls: type[AnyJob]) -> Iterator[type]:
    return (one for one in cls.__mro__ if one is not Job and issubclass(one, Job))


def _derive_job_type(cls: type[AnyJob]) -> str:
    """Return its name: `voucher.issue` for VoucherIssue. A subclass of a job keeps its name."""
    if declared := getattr(cls, "job_type", None):
        return str(declared)
    first, *rest = _words(cls)
    return f"{first}.{'_'.join(rest)}".lower()


def _words(cls: type[AnyJob]) -> list[str]:
    return re.findall(r"[A-Z]+(?![a-z0-9])|[A-Z][a-z0-9]*", cls.__name__)  # HTTPPing: HTTP, Ping


def _derive_example(cls: type[AnyJob]) -> dict[str, Json]:
    """Return a value for each required field."""
    fields = {name: one for name, one in _fields(cls).items() if one.is_required()}
    return {name: _example_of(one.annotation) for name, one in fields.items()}


def _example_of(annotation: Any) -> Json:  # noqa: ANN401  # of a field
    if get_origin(annotation) is Literal:
        value: Json = get_args(annotation)[0]
        return value
    examples: dict[Any, Json] = {int: 1, float: 1.0, bool: True}
    return examples.get(annotation, "18452")


def _fields(cls: type[AnyJob]) -> dict[str, Any]:
    return {name: one for name, one in cls.model_fields.items() if name not in _MESSAGE_FIELDS}


def _profiles(cls: type[AnyJob]) -> dict[str, ProviderProfile]:
    profiles = {plugin.name: plugin.profile for plugin in cls.all_providers()}
    return profiles or {cls.profile.name: cls.profile}


def _derive_policies(cls: type[AnyJob]) -> Mapping[str, RetryPolicy]:
    """Return what decisions read of it, for each of its providers."""
    proving = {one.name for one in cls.all_providers() if one.must_prove_lookups}
    return {
        name: _policy(cls, profile, must_prove_lookup=name in proving)
        for name, profile in _profiles(cls).items()
    }


def _policy(cls: type[AnyJob], profile: ProviderProfile, *, must_prove_lookup: bool) -> RetryPolicy:
    lag = cls.lookup_lag if cls.lookup_lag is not None else profile.lookup_lag
    has_lookup = overrides(cls, "lookup")
    safety = _safety(cls, profile)
    return RetryPolicy(
        safety=safety,
        profile=replace(
            profile,
            lookup_lag=lag if has_lookup or safety is RetrySafety.NATURAL else None,
            key_ttl=profile.key_ttl or cls.key_ttl,
        ),
        limits=RetryLimits(
            max_attempts=cls.max_attempts,
            max_consecutive_timeouts=cls.max_consecutive_timeouts,
            max_age=cls.max_age,
            max_processing_time=cls.max_processing_time,
            grace_period=cls.grace_period,
        ),
        tolerates_row_changes=cls.tolerates_row_changes,
        may_fail_later=cls.may_fail_later,
        # What is prepared stays open until it is closed, so there is a step that closes it.
        leaves_open=overrides(cls, "close"),
        must_prove_lookup=must_prove_lookup,
    )


def _safety(cls: type[AnyJob], profile: ProviderProfile) -> RetrySafety:
    if cls.safety is not None:
        return RetrySafety(cls.safety)
    if profile.key_ttl is not None or cls.key_ttl is not None:
        return RetrySafety.KEYED
    return RetrySafety.LOOKUP if overrides(cls, "lookup") else RetrySafety.AT_MOST_ONCE


def _class_faults(cls: type[AnyJob]) -> Iterator[str]:
    """Yield what is wrong with a class, and how to correct it. The first is raised."""
    yield from _spelling_faults(cls)
    yield from _name_faults(cls)
    yield from _key_faults(cls)
    yield from _step_faults(cls)
    yield from _personal_data_faults(cls)
    yield from _provider_faults(cls)
    if not timedelta(0) <= (cls.schedule_limit or timedelta(0)) <= MAX_SCHEDULE_LIMIT:
        yield f"its schedule_limit must be between 0 and {MAX_SCHEDULE_LIMIT.days} days"


def _spelling_faults(cls: type[AnyJob]) -> Iterator[str]:
    """Yield each name that means nothing to a job, so that what it says would have no effect."""
    known = {*vars(cls).get("__annotations__", {}), *_declarations(cls.__mro__[1])}
    of_authors = sorted(one for one in _declarations() if not one.startswith(("_", "model_")))
    for name, value in vars(cls).items():
        if name.startswith("_") or name in known:
            continue
        if hasattr(type(value), "__get__"):  # a method of its own may have almost any name
            if near := get_close_matches(name, of_authors, n=1, cutoff=0.85):
                yield f"{name} is no step of a job. Did you mean {near[0]}? If not, write _{name}"
        elif not (isinstance(value, type) and value.__qualname__ == f"{cls.__qualname__}.{name}"):
            near = get_close_matches(name, of_authors, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"A field needs a type: {name}: str"
            yield f"{name} is neither a field nor a declaration of a job. {hint}"


def _name_faults(cls: type[AnyJob]) -> Iterator[str]:
    for name in sorted(_fields(cls).keys() & _declarations()):
        yield f"the field {name} has the name of a declaration of every job. Rename the field"
    if not _docstring(cls):
        yield "it has no docstring. Say for operators what happens at the provider"
    if not hasattr(cls, "job_type") and len(_words(cls)) < 2:  # noqa: PLR2004  # a verb and a noun
        yield 'its name has one word. Name it like VoucherIssue, or set job_type = "voucher.issue"'
    elif hasattr(cls, "job_type") and not is_job_type(cls.job_type):
        yield f"its job_type is {cls.job_type!r}. Write it like payment.charge"


def _declarations(cls: type = Job) -> set[str]:
    """The names that mean something to every job, or to those of a base class."""
    return {
        name
        for one in cls.__mro__
        for name in (*vars(one), *vars(one).get("__annotations__", {}))
        if name not in _MESSAGE_FIELDS
    }


def _key_faults(cls: type[AnyJob]) -> Iterator[str]:
    fields, declared = _fields(cls), getattr(cls, "key", ())
    if not declared:
        yield 'it has no key. Name the field that identifies it, such as key = "order_id"'
    for name in (declared,) if isinstance(declared, str) else declared:
        if name not in fields:
            near = get_close_matches(name, fields, n=1) or sorted(fields)
            did_you_mean = f"Did you mean {' or '.join(near)}?" if near else f"Add {name}: str"
            yield f"its key names {name}, which is no field. {did_you_mean}"
        elif not fields[name].is_required():
            yield (
                f"its key names {name}, which has a default, so two messages for one job could "
                "have two keys. Make it required, or leave it out of the key"
            )
        elif get_origin(fields[name].annotation) is not Literal and fields[name].annotation not in {
            str,
            int,
        }:
            yield f"its key names {name}, which is neither str nor int. A key is made of ids"


def _step_faults(cls: type[AnyJob]) -> Iterator[str]:
    for name in _STEPS:
        if inspect.iscoroutinefunction(getattr(cls, name)):
            yield f"{name} is async. Write def {name}(…): a worker runs each job in its own thread"
    for name in _WRITING_STEPS:
        if overrides(cls, name) and not cls.writes:
            yield f'{name} writes business rows, but no table is declared. Add writes = ("orders",)'


def _personal_data_faults(cls: type[AnyJob]) -> Iterator[str]:
    names, declared = set(_fields(cls)), set(cls.personal_fields)
    if unknown := declared - names:
        yield f"personal_fields names {', '.join(sorted(unknown))}, which is no field. Remove it"
    if missing := (names & _PERSONAL_NAMES) - declared:
        listed = ", ".join(sorted(missing))
        yield f"it has personal data ({listed}). Name it in personal_fields, for `oncely erase`"
    if declared and cls.data_owner is None:
        yield (
            "its rows hold personal data. Set data_owner to say whose, such as DataOwner.CUSTOMER"
        )


def _provider_faults(cls: type[AnyJob]) -> Iterator[str]:
    if not cls.all_providers() and not hasattr(cls, "profile"):
        yield 'it has no provider. Add one: provider = HttpProvider("vouchers", key_ttl="24h")'
    if cls.chooses_provider():
        for name, plugin in cast("Mapping[str, AnyProvider]", cls.provider).items():
            if name != plugin.name:  # a job of this name would get the rules of the default one
                yield f"its provider {name!r} has the name {plugin.name!r}. Use the same name twice"
    if cls.safety is not None and cls.safety not in {*RetrySafety}:
        yield f"its safety is {cls.safety!r}. Choose {', '.join(RetrySafety)}"
    for profile in _profiles(cls).values():
        yield from _safety_faults(cls, profile)


def _safety_faults(cls: type[AnyJob], profile: ProviderProfile) -> Iterator[str]:
    safety, has_lookup = _safety(cls, profile), overrides(cls, "lookup")
    lag = cls.lookup_lag if cls.lookup_lag is not None else profile.lookup_lag
    if safety is RetrySafety.KEYED and profile.key_ttl is None and cls.key_ttl is None:
        yield (
            f"its safety is keyed, but {profile.name} has no key_ttl. Say how long it remembers an "
            "idempotency key, or remove safety"
        )
    if safety is RetrySafety.LOOKUP and not has_lookup:
        yield "its safety is lookup, but it has no lookup. Define lookup, or remove safety"
    if has_lookup and safety in {RetrySafety.KEYED, RetrySafety.LOOKUP} and lag is None:
        yield (
            f"it has a lookup, but {profile.name} has no lookup_lag. Say there how long a lookup "
            'may miss a new effect: lookup_lag="10s", or "0s" if its documentation says never'
        )
    if safety is RetrySafety.AT_MOST_ONCE and cls.safety is None and lag is not None:
        yield (
            f"{profile.name} can look up, but the job has no lookup. Define lookup, or set "
            'safety = "at_most_once": then an operator decides after each lost response'
        )
    if safety is RetrySafety.NATURAL and has_lookup:
        yield "its safety is natural, so its lookup is never used. Remove one of the two"
