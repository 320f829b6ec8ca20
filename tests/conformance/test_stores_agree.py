"""The memory store and DynamoDB give equal rows and answers after the same operations."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

import pytest

from oncely.domain.claims import Claim, apply_claim
from oncely.domain.effect_outcomes import BusinessWrite
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import TRANSITIONS, Event, Status
from oncely.ports import BusinessWriteConflict, ForgedRow
from tests.conformance.samples import make_claim, make_ready_job, paid_order_write, time_at
from tests.conformance.store_fixtures import StoreFixture, dynamodb_fixture, memory_fixture
from tests.support.dynamo import DynamoFixture
from tests.support.engines import DYNAMODB_ENGINES, EngineKind

SEQUENCES = 10
STEPS = 60
NAMES = ("first", "second")
FINGERPRINTS = (None, "fingerprint-1", "fingerprint-1", "fingerprint-2")
# How often each is drawn. Most operations on a row are swaps.
VERBS = {"compare_and_swap": 11, "claim": 6, "create": 3, "put_order": 2, "remove": 2}
MOVES = {
    status: [
        event
        for source, event in TRANSITIONS
        if source is status and event not in {Event.CLAIM, Event.CLAIM_REVIEW}
    ]
    for status in Status
}


@dataclass
class StorePair:
    memory: StoreFixture
    dynamodb: StoreFixture
    seed: int
    step: int = 0
    known_jobs: dict[str, list[Job]] = field(default_factory=lambda: {name: [] for name in NAMES})
    answers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)  # noqa: S311  # repeatable, not secret
        self.order = {"order_id": f"order-{self.seed}"}

    def key(self, name: str) -> JobKey:
        return JobKey(f"payment.charge:{name}:{self.seed}")

    def perform(self) -> None:
        self.step += 1
        (verb,) = self.draw.choices(list(VERBS), list(VERBS.values()))
        name = self.draw.choice(NAMES)
        getattr(self, verb)(name)
        row = self.memory.store.get(self.key(name))
        assert self.dynamodb.store.get(self.key(name)) == row
        if row is not None and row not in self.known_jobs[name][-1:]:
            self.known_jobs[name].append(row)

    def create(self, name: str) -> None:
        job = make_ready_job(
            self.key(name),
            status=self.draw.choice([Status.READY, Status.READY, Status.UNKNOWN]),
            created_at=time_at(self.step),
            fingerprint=self._fingerprint(),
        )
        both = (self.memory.store.create(job), self.dynamodb.store.create(job))
        self._assert_agree(*both)
        memory, dynamodb = both
        if isinstance(memory, ForgedRow) and isinstance(dynamodb, ForgedRow):
            self._assert_agree(
                self.memory.store.create(job, replacing=memory),
                self.dynamodb.store.create(job, replacing=dynamodb),
            )
            self._forget_unowned(name)

    def claim(self, name: str) -> None:
        claim = make_claim(
            job_key=self.key(name), now=time_at(self.step), fingerprint=self._fingerprint()
        )
        row = self.memory.store.get(claim.job_key)
        if row is not None and row.nothing_sent:
            claim = replace(claim, reopens=row)
        if self.draw.random() < 0.3 and self._would_succeed(claim):
            claim = replace(claim, requires_failed=self.key(NAMES[1 - NAMES.index(name)]))
        self._assert_agree(self.memory.store.claim(claim), self.dynamodb.store.claim(claim))

    def compare_and_swap(self, name: str) -> None:
        versions_ago = self.draw.choice([1, 1, 1, 2, 3])
        if len(self.known_jobs[name]) < versions_ago:
            return
        before = self.known_jobs[name][-versions_ago]
        after = self._apply_event(before, self.draw.choice(MOVES[before.status]))
        local: list[BusinessWrite] = []
        if self.draw.random() < 0.5:
            local = [paid_order_write(key=self.order, set={"status": "paid", "by": self.step})]
        self._assert_agree(
            self.memory.store.compare_and_swap(before, after, business_writes=local),
            self.dynamodb.store.compare_and_swap(before, after, business_writes=local),
        )
        order = self.memory.rows.get("orders", self.order)
        assert self.dynamodb.rows.get("orders", self.order) == order

    def put_order(self, _: str) -> None:
        status = self.draw.choice(["payment_pending", "payment_pending", "cancelled"])
        for place in (self.memory, self.dynamodb):
            place.rows.put("orders", self.order, {"status": status, "amount": 1250})

    def remove(self, name: str) -> None:
        if self.memory.store.get(self.key(name)) is None:
            return
        self.memory.remove_row(self.key(name))
        self.dynamodb.remove_row(self.key(name))
        self._forget_unowned(name)

    def _forget_unowned(self, name: str) -> None:
        """A row without an owner cannot be distinguished from its successor."""
        self.known_jobs[name] = [job for job in self.known_jobs[name] if job.owner]

    def _assert_agree(self, memory: object, dynamodb: object) -> None:
        assert type(memory) is type(dynamodb)
        # Each store words the conflict of a business row differently.
        assert isinstance(memory, BusinessWriteConflict) or memory == dynamodb
        self.answers[type(memory).__name__] += 1

    def _fingerprint(self) -> str | None:
        return self.draw.choice(FINGERPRINTS)

    def _would_succeed(self, claim: Claim) -> bool:
        # Which of two conflicts is returned is checked by test_job_store_resubmit.py.
        return apply_claim(self.memory.store.get(claim.job_key), claim) is not None

    def _apply_event(self, before: Job, event: Event) -> Job:
        """A change that no other step makes, so that it is not mistaken for another write."""
        by_event: dict[Event, dict[str, object]] = {
            Event.CHECKPOINT: {"provider_ref": f"pi_{self.step}"},
            Event.CONFIRM: {"result": {"step": self.step, "rate": 0.1}, "last_error": None},
            Event.DECLINE: {"result": {"code": "card_declined"}, "last_error": "card_declined"},
            Event.RELEASE: {"lease_until": None, "first_sent_at": None, "key_scope": None},
            Event.REQUEUE: {"lease_until": None, "key_number": before.key_number + 1},
            Event.ESCALATE: {"nothing_sent": self.step % 2 == 0, "last_error": "waited"},
            Event.MARK_UNKNOWN: {"timeouts": before.timeouts + 1, "last_error": "timeout"},
        }
        changes = by_event.get(event, {})
        if event is not Event.NOTE:
            due_at = None if self.step % 5 == 0 else time_at(1000 + self.step)
            changes = {**changes, "due_at": due_at, "unreachable": self.step}
        return before.apply(
            event, now=time_at(self.step), actor="worker", reason=str(event), **changes
        )


# Not on moto: the other suites of this folder show how it differs from a real engine.
@pytest.fixture(params=[kind for kind in DYNAMODB_ENGINES if kind is not EngineKind.MOTO])
def dynamodb(request: pytest.FixtureRequest, no_profile: None) -> Iterator[StoreFixture]:
    kind: EngineKind = request.param
    with closing(DynamoFixture(request.getfixturevalue(kind.name.lower()))) as tables:
        yield dynamodb_fixture(kind, tables)


def test_stores_agree_after_every_operation(dynamodb: StoreFixture) -> None:
    answers: Counter[str] = Counter()

    for seed in range(SEQUENCES):
        pair = StorePair(memory_fixture(), dynamodb, seed)
        for _ in range(STEPS):
            pair.perform()
        answers += pair.answers

    rare = {name for name, times in answers.items() if times < 5}
    assert len(answers) == 9
    assert not rare
