"""What remains of an erased job, what is erased, and whose data each job type holds."""

import json
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.contracts.registry import JobRegistry
from oncely.core.claims import ClaimFailure, classify_claim_failure
from oncely.core.effect_outcomes import BusinessWrite
from oncely.core.ended_jobs import (
    PROOF_FIELDS,
    DataOwner,
    erase_if_complete,
    holds_only_proof,
    request_erasure,
)
from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import MARKED_BY_OPERATOR, UNCONFIRMED, EvidenceEntry, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import ENDED, Event, Status
from oncely.history.erasure_log import (
    ARCHIVER_TIMEOUT,
    ErasedJobs,
    ErasureEntry,
    Person,
    erase_restored,
)
from oncely.history.lines import backfill_line, history_line
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.jobs.sync_contact import SyncContact
from oncely.jobs.sync_push import SyncPush
from oncely.operate.job_view import build_view
from tests.support.crash_points import InterruptingPort
from tests.support.crm import InProcessCrm
from tests.support.fakes import FakeClock
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_duplicate, is_finished, is_retried
from tests.unit.samples import KEY, NO_LIMIT, NOW, make_claim, make_job

MARK = "Anna anna@example.org"
# Every field that may hold text or values of a message.
FILLED: dict[str, Any] = {
    "message": {"name": MARK},
    "result": {"to": MARK},
    "closing": {"reason": MARK},
    "progress": {"at": MARK},
    "fingerprint": "f" * 32,
    "subject": MARK,
    "customer_id": MARK,
    "amount": 1250,
    "currency": "eur",
    "last_error": MARK,
}


def ended_job(**changes: Any) -> JobRow:  # noqa: ANN401  # fields
    entry = EvidenceEntry(
        at=NOW,
        event=Event.CONFIRM,
        from_status=Status.STARTED,
        to_status=Status.FINISHED,
        reason=MARK,
        actor="worker",
    )
    given = {"status": Status.FINISHED, "due_at": None, "evidence": (entry,), **FILLED, **changes}
    return make_job(provider_ref="pi_1", **given)


def marked(job: JobRow) -> JobRow:
    return request_erasure(NOW).apply_to(job, now=NOW, actor="operator:ada")


def test_erased_row_holds_only_proof() -> None:
    job = ended_job()
    erased = erase_if_complete(marked(job))

    assert MARK not in repr(erased)
    assert holds_only_proof(erased)
    assert erased.fingerprint is None
    assert (erased.job_key, erased.status, erased.provider_ref) == (KEY, Status.FINISHED, "pi_1")
    assert (erased.created_at, erased.claimed_at, erased.fence) == (NOW, NOW, 1)
    for name in PROOF_FIELDS - {"version", "updated_at", "erasure_requested_at"}:
        assert getattr(erased, name) == getattr(job, name), name
    first, second = erased.evidence
    assert first == replace(job.evidence[0], reason="")
    assert (second.event, second.actor, second.reason) == (Event.ERASE, "operator:ada", "")


def test_reference_stays_with_its_provider() -> None:
    """Without the provider, a contradicted job would be looked up at another one."""
    job = ended_job(provider="braintree")
    erased = erase_if_complete(marked(job))

    assert (erased.provider, erased.provider_ref) == ("braintree", "pi_1")
    line = backfill_line(job, generation="t").as_proof
    assert (line.image["provider"], line.image["provider_ref"]) == ("braintree", "pi_1")


def test_mark_of_operator_stays() -> None:
    """Without it, texts would claim that the provider confirmed the job."""
    entry = replace(ended_job().evidence[0], event=Event.RESOLVE_FINISHED, actor="operator:ada")
    job = marked(ended_job(result={"code": MARKED_BY_OPERATOR, "to": MARK}, evidence=(entry,)))
    erased = erase_if_complete(job)

    assert erased.marked_by == "ada"
    assert "Marked as" in build_view(erased, JobRegistry(SHIPPED_JOBS), now=NOW).headline
    assert MARK not in repr(erased)
    assert erase_if_complete(erased) == erased
    line = backfill_line(replace(job, erasure_requested_at=None), generation="t")
    assert line.as_proof.image["result"] == {"code": MARKED_BY_OPERATOR}


def test_word_of_the_business_rows_stays_unconfirmed() -> None:
    job = marked(ended_job(result={"code": UNCONFIRMED, "to": MARK}))
    erased = erase_if_complete(job)

    assert erased.is_unconfirmed
    assert build_view(erased, JobRegistry(SHIPPED_JOBS), now=NOW).headline == (
        "The order's row says it was paid: the order's amount. No provider confirmed it. "
        "Its personal data was erased."
    )
    line = backfill_line(replace(job, erasure_requested_at=None), generation="t")
    assert line.as_proof.image["result"] == {"code": UNCONFIRMED}


@pytest.mark.parametrize(
    ("status", "headline"), [(Status.FINISHED, "Charged."), (Status.FAILED, "Not charged.")]
)
def test_view_of_erased_job_says_so(status: Status, headline: str) -> None:
    erased = erase_if_complete(marked(ended_job(status=status)))
    view = build_view(erased, JobRegistry(SHIPPED_JOBS), now=NOW)
    assert view.headline == f"{headline} Its personal data was erased."
    assert view.to_json()["message"] == {}


def test_every_other_field_gets_its_default() -> None:
    """A new field is erased unless it is listed as proof."""
    erased = erase_if_complete(marked(ended_job()))
    for one in fields(JobRow):
        if one.name not in PROOF_FIELDS | {"message", "evidence"}:
            assert getattr(erased, one.name) == one.default, one.name


@pytest.mark.parametrize("status", sorted(set(Status) - ENDED))
def test_open_job_keeps_data(status: Status) -> None:
    job = marked(ended_job(status=status, due_at=None))
    assert erase_if_complete(job) == job
    assert not holds_only_proof(job)


def test_job_that_must_publish_keeps_data() -> None:
    job = marked(ended_job(due_at=NOW))
    assert erase_if_complete(job) == job


def test_unmarked_job_keeps_data() -> None:
    assert erase_if_complete(ended_job()) == ended_job()


def test_later_writes_keep_mark() -> None:
    erased = erase_if_complete(marked(ended_job()))
    noted = erased.apply(Event.NOTE, now=NOW, actor="worker", reason=MARK, result={"to": MARK})
    assert MARK not in repr(erase_if_complete(noted))


@pytest.mark.parametrize("status", sorted(ENDED))
def test_ended_row_without_fingerprint_is_duplicate_by_status(status: Status) -> None:
    erased = erase_if_complete(marked(ended_job(status=status)))
    claim = make_claim(fingerprint="other")
    assert classify_claim_failure(erased, claim, NOW, NO_LIMIT) is ClaimFailure.ENDED


def test_erased_job_is_duplicate_for_producer_and_is_not_sent() -> None:
    world = InMemoryStack()
    world.add_order()
    assert is_finished(world.run(charge_message()))
    world.publisher().publish(KEY)
    world.outbox.sent.clear()
    world.app().eraser.erase_tables(Person.parse("customer_7", []), actor="ada")
    assert holds_only_proof(world.job(KEY)), world.job(KEY)

    again = world.enqueuer().enqueue(charge_message(amount=9999))

    assert (again.created, again.conflict, again.sent) == (False, None, False)
    assert world.outbox.sent == []
    assert is_duplicate(world.run(charge_message()))


def test_history_line_of_marked_row_is_proof() -> None:
    job = marked(ended_job(status=Status.UNKNOWN, message={"order_id": "1"}, customer_id="cus_7"))
    of_write = history_line(None, job, generation="t", at=NOW)
    for line in (of_write, backfill_line(job, generation="t")):
        assert line is not None
        assert line.image.keys().isdisjoint({"customer_id", "message", "fingerprint", "amount"})
        assert line.left_out == ("message", "result")  # a restore sends such a job to review
        assert (line.status, line.image["provider_ref"]) == ("unknown", "pi_1")
        assert line.as_proof == line


def test_log_entry_covers_rows_created_until_then() -> None:
    entry = ErasureEntry(job_key=KEY, requested_at=NOW, actor="operator:ada")
    erased = ErasedJobs.from_names([entry.name])

    assert KEY not in entry.name
    assert erased.includes(KEY, NOW)
    assert not erased.includes(KEY, NOW + timedelta(milliseconds=1))
    assert not erased.includes(KEY, None)
    again = replace(entry, requested_at=NOW + timedelta(days=1))
    assert ErasedJobs.from_names([again.name, entry.name]).includes(KEY, NOW + timedelta(hours=1))


def test_archive_is_erased_when_running_archivers_have_ended() -> None:
    names = [ErasureEntry(job_key=KEY, requested_at=NOW, actor="").name]
    effective_at = ErasedJobs.from_names(names).effective_at
    assert effective_at is not None
    assert effective_at > NOW + ARCHIVER_TIMEOUT
    assert ErasedJobs({}).effective_at is None


def test_restored_row_is_erased_again() -> None:
    log = ErasedJobs.from_names([ErasureEntry(job_key=KEY, requested_at=NOW, actor="").name])
    restored = erase_restored(ended_job(), log, now=NOW)
    assert holds_only_proof(restored)
    assert restored.version == ended_job().version + 1
    open_job = erase_restored(make_job(status=Status.UNKNOWN), log, now=NOW)
    assert open_job.erasure_requested_at == NOW
    other = ended_job(job_key=JobKey("payment.charge:order_2"))
    assert erase_restored(other, log, now=NOW) is other
    assert erase_restored(open_job, log, now=NOW) is open_job


ANNA = Person.parse("cus_7", ["crm:4419"], ["anna@example.com"])


@pytest.mark.parametrize(
    "body",
    [
        {"customer_id": "cus_7"},
        {"deep": [{"who": "cus_7"}]},
        {"record_id": "crm#4419"},
        {"source": "crm", "source_id": "4419"},
        {"source": "crm", "source_id": 4419},
        "customer=cus_7;",
        "crm#4419 is broken",
        {"receipt_email": "Anna@Example.com"},
        {"to": ["Anna <anna@example.com>"]},
        "SES declined the email: anna@example.com.",
    ],
)
def test_reject_that_names_person_is_found(body: object) -> None:
    assert ANNA.is_named_in(body if isinstance(body, str) else json.dumps(body))


@pytest.mark.parametrize(
    "body",
    [
        {"customer_id": "cus_77"},
        {"source": "shop", "source_id": "4419"},
        {"source_id": "4419"},
        "customer=cus_77;",
        {"receipt_email": "joanna@example.com"},
        {"to": "x+anna@example.com, anna@example.com.au, anna@example.com-x"},
        "",
        "null",
        "[" * 100_000,
    ],
)
def test_reject_of_others_is_kept(body: object) -> None:
    assert not ANNA.is_named_in(body if isinstance(body, str) else json.dumps(body))
    nobody = Person.parse(None, ["crm:1"])
    assert not nobody.is_named_in(json.dumps({"customer_id": None}))


@pytest.mark.parametrize(
    ("customer", "records", "reason"),
    [
        (None, [], "pass a customer"),
        ("", [], "customer id must have"),
        ("a\nb", [], "customer id must have"),
        ("x" * 200, [], "customer id must have"),
        (None, ["4419"], "write its source and its id"),
        (None, ["crm:"], "write its source and its id"),
        (None, ["crm:a b"], "write its source and its id"),
        (None, ["crm#1:2"], "write its source and its id"),
        (None, ["crm:" + "1" * 200], "the record must have"),
    ],
)
def test_bad_ids_are_refused(customer: str | None, records: list[str], reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        Person.parse(customer, records)


def test_shipped_jobs_name_the_owner_of_their_data() -> None:
    owners = {one.job_type: one.data_owner for one in SHIPPED_JOBS}
    assert owners == {
        "payment.charge": DataOwner.CUSTOMER,
        "payment.refund": DataOwner.CUSTOMER,
        "receipt.send": DataOwner.CUSTOMER,
        "sync.contact": DataOwner.RECORD,
        "sync.push": DataOwner.RECORD,
        "sync.import": None,
    }


def erased_record(world: InMemoryStack, *, has_open_jobs: bool = False) -> BusinessWrite | None:
    return SyncContact.erase_record(world.tools, "hubspot#1", now=NOW, has_open_jobs=has_open_jobs)


def test_erased_record_leaves_tombstone() -> None:
    world = InMemoryStack()
    key = {"record_id": "hubspot#1"}
    row = {"version": 3, "source": "hubspot", "record": {"name": MARK}, "crm_id": "9", "own": MARK}
    world.rows.put("records", key, row)
    write = erased_record(world)
    assert write is not None
    assert not write.applies_to({**row, "version": 4})
    assert world.tools.table("records").update(write)

    left = world.tools.table("records").get(key)
    assert left is not None
    assert MARK not in str(left)
    assert (left["version"], left["gone"]) == (4, True)
    assert erased_record(world) is None


@pytest.mark.parametrize("is_stored", [True, False])
def test_import_under_way_does_not_bring_erased_record_back(*, is_stored: bool) -> None:
    """A worker has fetched the contact. Then it is erased, at the source first."""
    world, key = InMemoryStack(), {"record_id": "hubspot#1"}
    crm = world.crm
    crm.clock = FakeClock()
    crm.add(firstname=MARK)
    event = {"job": "sync.contact", "v": 1, "source": "hubspot", "source_id": "1"}
    if is_stored:
        world.run({**event, "event_id": "0"})
        crm.clock.advance(hours=1)
        crm.update("1", phone="1")

    def erase() -> None:
        world.crm = crm
        crm.archive("1")
        write = erased_record(world, has_open_jobs=True)
        assert write is not None
        assert world.tools.table("records").update(write)

    world.crm = InterruptingPort(crm, "get_contact", erase)
    assert is_retried(world.run({**event, "event_id": "1"}))

    outcome = world.run({**event, "event_id": "1"})

    assert is_finished(outcome)
    assert outcome.result == {"result": "gone"}
    assert MARK not in str(world.tools.table("records").get(key))
    imported = world.tools.table("import_events").get({**key, "event_id": "1"})
    assert imported is not None
    assert imported["checksum"] is None


def test_unknown_record_gets_mark_only_if_open_job_may_write_it() -> None:
    world = InMemoryStack()
    assert erased_record(world) is None
    write = erased_record(world, has_open_jobs=True)
    assert write is not None
    assert write.must_be_new


def test_erased_record_is_not_pushed() -> None:
    world = InMemoryStack(contracts=(SyncPush,))
    key = {"record_id": "hubspot#1"}
    world.rows.put("records", key, {"version": 8, "gone": True})
    push = {"job": "sync.push", "v": 1, "target": "hubspot", **key}
    for version in (7, 8):
        outcome = world.run({**push, "version": version})
        assert is_finished(outcome)
        assert outcome.result["gone"] is True
    assert world.crm.writes.total() == 0
    assert world.outbox.sent == []


def test_push_that_ends_after_erasure_writes_nothing_into_record() -> None:
    world = InMemoryStack(contracts=(SyncPush,))
    key = {"record_id": "hubspot#1"}
    record = {"properties": {"email": "anna@example.org"}}
    world.rows.put("records", key, {"version": 7, "record": record})

    class ErasedMeanwhile(InProcessCrm):
        def upsert_contact(self, *args: Any, **more: Any) -> Any:  # noqa: ANN401  # as the real one
            pushed = super().upsert_contact(*args, **more)
            write = erased_record(world)
            assert write is not None
            assert world.tools.table("records").update(write)
            return pushed

    world.crm = ErasedMeanwhile()
    assert is_finished(
        world.run({"job": "sync.push", "v": 1, "target": "hubspot", **key, "version": 7})
    )
    left = world.tools.table("records").get(key)
    assert left is not None
    assert left.keys() == {"record_id", "version", "gone", "expires_at"}
