"""The contract: the one class that defines a job type."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

from oncely.contracts.dependencies import Dependencies
from oncely.contracts.description import (
    RETRY_DESCRIPTIONS,
    ContractDescription,
    Description,
)
from oncely.contracts.message import Message, encode_message
from oncely.contracts.resources import Resources
from oncely.core.effect_outcomes import (
    Anomalous,
    Json,
    LookupOutcome,
    Succeeded,
)
from oncely.core.ended_jobs import DataOwner
from oncely.core.job_row import JobRow, known_values
from oncely.core.job_type import JobType
from oncely.core.keys import (
    JobKey,
    indexable_id,
)
from oncely.core.profiles import RetrySafety
from oncely.core.text import format_duration
from oncely.plugins.provider import AnyProvider

M = TypeVar("M", bound=Message)
F = TypeVar("F")


@dataclass(eq=False)
class Contract(JobType[M, F]):
    """A job type. Class attributes define it; an instance runs it."""

    # A class variable cannot be typed with M.
    message: ClassVar[type[Message]]
    # The shortest message of a producer, by `model_construct`: a test validates it, no cold start.
    example: ClassVar[Message]
    resources: ClassVar[Resources]
    description: ClassVar[Description]
    personal_fields: ClassVar[tuple[str, ...]] = ()  # of the message: personal data
    # Whose data it is. `oncely erase` finds the rows by it.
    owner: ClassVar[DataOwner | None] = None

    dependencies: Dependencies
    provider: str | None = None  # of the job that this instance runs or looks up

    def __post_init__(self) -> None:
        """Use the policy and the secrets of the job's provider."""
        self.secret_names = self.resources.secret_names
        if self.policies:
            self.secret_names = self.resources.secrets_by_provider.get(self.provider or "", ())
            vars(self)["policy"] = self.policies.get(self.provider or "", self.policy)

    @classmethod
    def subject(cls, message: M) -> str | None:
        """Return the business id that support agents search by. Returns None if there is none.

        Each row is indexed by it, unless `keys_for_subject` derives the keys.
        """
        del message
        return None

    def with_provider(self, provider: str | None) -> Self:
        """Return this job type for a job of one provider: with its policy, client and secrets."""
        return type(self)(self.dependencies, provider)

    def require_secrets(self) -> None:
        """Read its secrets. Raises NotConfiguredError if one cannot be used."""
        for name in self.secret_names:
            self.dependencies.secret(name)

    def send_message(self, job: JobRow) -> bool:
        """Send the job's message again. Returns False if the queue did not accept it."""
        sender = self.dependencies.message_sender(self.resources.queue)
        groups = [self.tenant(known_values(job))]
        return all(sender.send([encode_message(job.message)], groups=groups))

    @classmethod
    def message_schema(cls) -> dict[str, Any]:
        """Return the JSON schema of a queue message, which cannot set the time of a payment."""
        schema = cls.message.model_json_schema()
        if cls.moves_money():
            del schema["properties"]["run_at"]
        return schema

    @classmethod
    def keys_for_subject(cls, subject: str) -> Iterator[JobKey]:
        """Derive every key that a business id can have, in the order of use.

        A search reads these keys, so rows need no index entry.
        """
        del subject
        return iter(())

    @classmethod
    def indexed_subject(cls, message: M) -> str | None:
        """Return the business id to index the row by. Returns None if its keys can be derived."""
        # Compare functions: each access creates a new bound method.
        derives_keys = cls.keys_for_subject.__func__ is not Contract.keys_for_subject.__func__  # type: ignore[attr-defined]  # of a class method
        return None if derives_keys else indexable_id(cls.subject(message))

    @classmethod
    def resubmission(cls, message: M) -> Message | None:
        """Return the message that resubmits a declined job. Returns None if there is none."""
        del message
        return None

    @classmethod
    def success_summary(cls, job: JobRow) -> str:
        """Describe a finished job for a support agent."""
        if job.is_unconfirmed:
            verb = cls.description.done_verb
            return f"The business rows say it was {verb}. No provider confirmed it."
        return f"Done: {cls.description.success}"

    @classmethod
    def tenant(cls, values: Mapping[str, Json]) -> str | None:
        """Return the tenant, for a fair share of the queue. Returns None if there is none.

        `values` are the fields of the message, and the customer of a claimed job.
        """
        customer = values.get("customer_id")
        return customer if isinstance(customer, str) else None

    @classmethod
    def uniqueness_key(cls, message: M) -> str:
        """Return what `unique_for` keeps unique: the key, or a part of it for a repeatable job."""
        return cls.key(message)

    @classmethod
    def references(cls, outcome: LookupOutcome) -> frozenset[str]:
        """Return the ids that an operator may enter for this effect, such as a charge id."""
        ref = outcome.ref if isinstance(outcome, Succeeded | Anomalous) else None
        return frozenset(() if ref is None else (ref,))

    @classmethod
    def detects_missing_jobs(cls) -> bool:
        """Return whether this contract can find messages that were never sent."""
        return cls.missing_jobs is not Contract.missing_jobs

    def missing_jobs(self, *, now: datetime) -> Iterable[M]:
        """Find messages that the business rows request and that may never have been sent."""
        del now
        return ()

    def follow_ups(self, job: JobRow) -> tuple[Message, ...]:
        """Return the messages to send after this job has ended, from its row alone."""
        del job
        return ()

    @classmethod
    def describe_fields(cls) -> ContractDescription:
        """Describe the contract as fields, for the admin page and `--json`."""
        limits = cls.policy.limits
        timeouts = f"{limits.max_consecutive_timeouts} timeouts in a row"
        hours = format_duration(limits.max_age)
        stops = (
            f"after {timeouts}, {limits.max_attempts} attempts, or {hours} without an outcome",
            "when a message has the same key and other business values",
            "when the effect is done but the business rows reject the write",
        )
        rows, grace = cls.description.waits_for, format_duration(limits.grace_period)
        waits = () if rows is None else (f"when it waited {grace} for {rows}",)
        return ContractDescription(
            job_type=cls.job_type,
            queue=cls.resources.queue,
            effect=cls.description.effect,
            business_rows=cls.description.business_rows,
            success=cls.description.success,
            failure=cls.description.failure,
            retry=cls._describe_retries(),
            review_when=(*stops, *waits, *cls.description.review_when),
        )

    @classmethod
    def _describe_retries(cls) -> str:
        by_safety: dict[RetrySafety, list[str]] = {}
        for policy in cls.all_policies():
            by_safety.setdefault(policy.safety, []).append(policy.profile.name)
        if len(by_safety) == 1:
            return RETRY_DESCRIPTIONS[cls.policy.safety]
        return " ".join(
            f"{' and '.join(names)}: {RETRY_DESCRIPTIONS[safety]}"
            for safety, names in by_safety.items()
        )

    @classmethod
    def describe(cls) -> str:
        """Describe the contract as text."""
        return str(cls.describe_fields())


AnyContract: TypeAlias = Contract[Any, Any]


def providers_of(contracts: Iterable[type[AnyContract]]) -> tuple[AnyProvider, ...]:
    """Return the plug-ins that contracts call, each once, sorted by name."""
    plugins = {plugin.name: plugin for one in contracts for plugin in one.resources.providers}
    return tuple(plugins[name] for name in sorted(plugins))
