"""The memory store and DynamoDB give equal rows and answers after the same operations."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

import pytest

from oncely.domain.claims import Claim, claimed
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import TRANSITIONS, Event, Status
from oncely.domain.writes import LocalWrite
from oncely.ports import LocalRefused
from tests.contract.places import Place, in_memory, on_dynamodb
from tests.contract.samples import a_claim, a_ready_job, at, order_becomes_paid
from tests.support.dynamo import Dynamo
from tests.support.engines import DYNAMODBS, Kind

SEQUENCES = 10
STEPS = 60
NAMES = ("first", "second")
FINGERPRINTS = (None, "fingerprint-1", "fingerprint-1", "fingerprint-2")
# How often each is drawn: most of a row's life is swaps.
VERBS = {"swap": 11, "claim": 6, "create": 2, "put_order": 2, "remove": 2}
MOVES = {
    status: [
        event for source, event in TRANSITIONS if source is status and event is not Event.CLAIM
    ]
    for status in Status
}


@dataclass
class Pair:
    """Two stores that are given the same operations, drawn by a seed."""

    memory: Place
    dynamodb: Place
    seed: int
    step: int = 0
    seen: dict[str, list[Job]] = field(default_factory=lambda: {name: [] for name in NAMES})
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
        if row is not None and row not in self.seen[name][-1:]:
            self.seen[name].append(row)

    def create(self, name: str) -> None:
        job = a_ready_job(self.key(name), created_at=at(self.step), fingerprint=self._fingerprint())
        self._agree(self.memory.store.create(job), self.dynamodb.store.create(job))

    def claim(self, name: str) -> None:
        claim = a_claim(job_key=self.key(name), now=at(self.step), fingerprint=self._fingerprint())
        if self.draw.random() < 0.3 and self._would_be_taken(claim):
            other = NAMES[1 - NAMES.index(name)]
            claim = replace(claim, requires_failed=self.key(other))
        self._agree(self.memory.store.claim(claim), self.dynamodb.store.claim(claim))

    def swap(self, name: str) -> None:
        versions_ago = self.draw.choice([1, 1, 1, 2, 3])
        if len(self.seen[name]) < versions_ago:
            return
        before = self.seen[name][-versions_ago]
        after = self._after(before, self.draw.choice(MOVES[before.status]))
        local: list[LocalWrite] = []
        if self.draw.random() < 0.5:
            local = [order_becomes_paid(key=self.order, set={"status": "paid", "by": self.step})]
        self._agree(
            self.memory.store.swap(before, after, local=local),
            self.dynamodb.store.swap(before, after, local=local),
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
        # Nothing tells a row that nobody owned from its successor.
        self.seen[name] = [job for job in self.seen[name] if job.owner]

    def _agree(self, memory: object, dynamodb: object) -> None:
        assert type(memory) is type(dynamodb)
        # Each says in its own words why a business row refused.
        assert isinstance(memory, LocalRefused) or memory == dynamodb
        self.answers[type(memory).__name__] += 1

    def _fingerprint(self) -> str | None:
        return self.draw.choice(FINGERPRINTS)

    def _would_be_taken(self, claim: Claim) -> bool:
        # Which of two refusals is told is the business of test_job_store_second_try.py.
        return claimed(self.memory.store.get(claim.job_key), claim) is not None

    def _after(self, before: Job, event: Event) -> Job:
        """A change that no other step makes, so that nobody takes it for their own."""
        by_event: dict[Event, dict[str, object]] = {
            Event.KEEP: {"provider_ref": f"pi_{self.step}"},
            Event.CONFIRM: {"result": {"step": self.step, "rate": 0.1}, "last_error": None},
            Event.REFUSE: {"result": {"code": "card_declined"}, "last_error": "card_declined"},
            Event.RELEASE: {"lease_until": None, "first_sent_at": None, "key_scope": None},
            Event.RETURN: {"lease_until": None, "key_number": before.key_number + 1},
            Event.LOSE: {"timeouts": before.timeouts + 1, "last_error": "timeout"},
        }
        changes = by_event.get(event, {})
        if event is not Event.NOTE:
            due_at = None if self.step % 5 == 0 else at(1000 + self.step)
            changes = {**changes, "due_at": due_at, "unreachable": self.step}
        return before.apply(event, now=at(self.step), actor="worker", reason=str(event), **changes)


# Not on moto: what it lacks beside a real engine, the other suites of this folder show.
@pytest.fixture(params=[kind for kind in DYNAMODBS if kind is not Kind.MOTO])
def dynamodb(request: pytest.FixtureRequest, no_profile: None) -> Iterator[Place]:
    kind: Kind = request.param
    with closing(Dynamo(request.getfixturevalue(kind.name.lower()))) as tables:
        yield on_dynamodb(kind, tables)


def test_stores_agree_after_every_operation(dynamodb: Place) -> None:
    answers: Counter[str] = Counter()

    for seed in range(SEQUENCES):
        pair = Pair(in_memory(), dynamodb, seed)
        for _ in range(STEPS):
            pair.perform()
        answers += pair.answers

    rare = {name for name, times in answers.items() if times < 5}
    assert len(answers) == 8
    assert not rare
