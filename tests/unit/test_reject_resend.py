"""A rejected message is edited and resent from the page: by operators, once, and audited."""

import json
from typing import Any

import pytest

from oncely.aws.objects import S3Objects
from oncely.operate.masking import mask_json, unmask_json
from oncely.operate.rejects import RejectArchive
from tests.support.fakes import FakeMessageSource, UnreachableS3
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.stored_rows import StoredRejects
from tests.support.worker import BatchHarness, make_delivery
from tests.unit.test_access_log import Lines, Page
from tests.unit.test_bulk_page import log

__all__ = ["log"]
ROUTE = "POST /api/rejects/resend"
NAME = "2026/11/16/4f7b"
KEY = "payment.charge:order_18452"


def body(**changes: object) -> str:
    return json.dumps({"job": "payment.charge", "v": 1, "order_id": "18452", **changes})


CONFLICTING = body(amount=9900, currency="eur")


@pytest.fixture
def page(world: InMemoryStack, monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(world, monkeypatch)


@pytest.fixture
def rejects(world: InMemoryStack) -> StoredRejects:
    world.rejects.add(NAME, CONFLICTING)
    return world.rejects


def resend(page: Page, message: str, **more: Any) -> tuple[int, Any]:  # noqa: ANN401  # JSON
    asked = {"name": NAME, "message": message, "reason": "a typo", **more}
    answer = page.call(ROUTE, body=json.dumps(asked))
    return answer["statusCode"], json.loads(answer["body"])


def test_edited_message_is_sent_in_the_name_of_the_operator(
    page: Page, world: InMemoryStack, rejects: StoredRejects, log: Lines
) -> None:
    status, sent = resend(page, body(amount=1250))

    assert (status, sent["job_key"], sent["created"]) == (200, KEY, True)
    assert not sent["needs_second_operator"]
    assert [json.loads(one) for one in world.outbox.sent] == [json.loads(body(amount=1250))]
    first = world.job(KEY).evidence[0]
    assert first.actor == "operator:ada@example.com"
    assert first.reason == f"resent from the rejected message {NAME}: a typo"
    assert rejects.resends == {NAME: "operator:ada@example.com"}
    logged = [line for line in map(json.loads, log.all) if line["message"] == "reject resent"]
    assert [(one["reject"], one["job_key"]) for one in logged] == [(NAME, KEY)]


def test_reject_is_resent_once(page: Page, world: InMemoryStack, rejects: StoredRejects) -> None:
    assert resend(page, body(amount=1250))[0] == 200

    status, refused = resend(page, body(amount=1250))

    assert (status, len(world.outbox.sent), len(rejects.resends)) == (400, 1, 1)
    assert "already resent" in refused["error"]
    assert "oncely send" in refused["error"]


def test_race_of_two_operators_sends_one_message(
    page: Page, world: InMemoryStack, rejects: StoredRejects
) -> None:
    """Both saw it as never resent. The one that loses the conditional write sends nothing."""

    class Late(StoredRejects):
        def reserve_resend(self, name: str, *, actor: str) -> bool:
            rejects.reserve_resend(name, actor="operator:bob")
            return super().reserve_resend(name, actor=actor)

    page.app = world.app(stored_rejects=Late(rejects.objects), user_directory=page.directory)

    status, lost = resend(page, body(amount=1250))

    assert (status, "already resent" in lost["error"]) == (400, True)
    assert (world.outbox.sent, world.store.jobs) == ([], {})


# A refund of 25,000 EUR, as an operator would invent it.
INVENTED = {"job": "payment.refund", "v": 1, "order_id": "18452", "refund_id": "x"}


@pytest.mark.parametrize("stored", ['{"hello": "world"}', "{", "[]", '{"job": "payment.charge"}'])
@pytest.mark.parametrize("edit", [json.dumps({**INVENTED, "amount": 2_500_000}), body()])
def test_unreadable_reject_is_not_resent(
    page: Page, world: InMemoryStack, rejects: StoredRejects, stored: str, edit: str
) -> None:
    rejects.add("2026/11/16/other", stored)
    status, answer = resend(page, edit, name="2026/11/16/other")
    assert (status, "send a corrected one with `oncely send`" in answer["error"]) == (400, True)
    assert (world.outbox.sent, world.store.jobs, rejects.resends) == ([], {}, {})


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        (body(amount=-1), "amount"),
        (body(currency="e***@example.com"), "type it in full"),
        (body(order_id="2"), "payment.charge:order_2 is another job than"),
        (json.dumps({**INVENTED, "amount": 1}), "no field 'refund_id', and none can be added"),
        (json.dumps({"job": "receipt.send", "v": 1, "order_id": "18452"}), "'job' cannot be"),
        (json.dumps({"order_id": "18452", "amount": 1250}), "'job' cannot be edited"),
        (body(v=2), "'v' cannot be edited"),
        (body(amount="1250"), "'amount' is a number, and cannot become text"),
        (body(amount=True), "cannot become true or false"),
        (body(amount=None), "cannot become null"),
        (body(order_id=18452), "'order_id' is text, and cannot become a number"),
        (body(customer_id="customer_7"), "no field 'customer_id'"),
        (body(attempt=2), "no field 'attempt'"),
    ],
)
def test_other_message_is_refused_and_reserves_nothing(
    page: Page, world: InMemoryStack, rejects: StoredRejects, message: str, error: str
) -> None:
    status, answer = resend(page, message)
    assert (status, error in answer["error"]) == (400, True), answer
    assert (world.outbox.sent, world.store.jobs, rejects.resends) == ([], {}, {})


def test_conflict_with_the_existing_job_reserves_nothing(
    page: Page, world: InMemoryStack, rejects: StoredRejects, log: Lines
) -> None:
    world.run(charge_message(amount=1250))
    status, answer = resend(page, body(amount=9900))
    assert (status, world.outbox.sent, rejects.resends) == (409, [], {})
    assert "Amount is 1250 in the existing job, 9900 here" in answer["error"]
    assert [line["job_key"] for line in log.access] == [KEY]


@pytest.mark.usefixtures("rejects")
def test_support_agent_cannot_resend(page: Page, world: InMemoryStack) -> None:
    page.directory.members["ada@example.com"] = {"support"}
    asked = {"name": NAME, "message": body(), "reason": "x"}
    assert page.call(ROUTE, groups="[support]", body=json.dumps(asked))["statusCode"] == 403
    assert world.outbox.sent == []


def test_masked_address_that_is_left_alone_is_sent_as_it_came() -> None:
    original: Any = {
        "record": {"email": "eve@example.com", "n": 1, "tags": ["a@b.example", "x"]},
        "amount": 1250.0,
        "eve@example.com": True,
    }
    edited: Any = mask_json(original)
    assert edited["record"]["email"] == "e***@example.com"
    assert unmask_json(edited, original) == original

    edited["record"]["n"] = 2
    edited["amount"] = 1250
    sent: Any = unmask_json(edited, original)

    assert sent["record"] == {**original["record"], "n": 2}
    assert sent["eve@example.com"] is True
    assert json.dumps(sent["amount"]) == "1250", "1250.0 was the mistake"


def test_conflicting_message_is_on_the_timeline_of_its_job(
    page: Page, world: InMemoryStack, rejects: StoredRejects
) -> None:
    world.run(charge_message())
    rejects.add(NAME, CONFLICTING, job_key=KEY)

    timeline = json.loads(page.call("GET /api/job", key=KEY)["body"])["timeline"]

    (shown,) = (entry for entry in timeline if entry["kind"] == "reject")
    assert (shown["reason"], shown["reject"]) == ("amount is text", NAME)
    assert [entry["at"] for entry in timeline] == sorted(entry["at"] for entry in timeline)


@pytest.mark.parametrize(
    ("message", "named"), [(charge_message(amount=9900), KEY), ({"job": "payment.charge"}, None)]
)
def test_reject_names_its_job(
    world: InMemoryStack, message: dict[str, object], named: str | None
) -> None:
    inbox = FakeMessageSource()
    BatchHarness(world=world, inbox=inbox).process(make_delivery(json.dumps(message)))
    assert inbox.named == [named]


def test_job_is_shown_when_the_archive_cannot_be_read(
    page: Page, world: InMemoryStack, rejects: StoredRejects
) -> None:
    resend(page, body())
    rejects.add(NAME, CONFLICTING, job_key=KEY)
    readable = json.loads(page.call("GET /api/job", key=KEY)["body"])
    client: Any = UnreachableS3()
    page.app = world.app(stored_rejects=RejectArchive(S3Objects(client, "archive")))

    answer = page.call("GET /api/job", key=KEY)
    shown = json.loads(answer["body"])

    assert (answer["statusCode"], readable["timeline_error"]) == (200, None)
    assert "rejected messages of this job, if any, cannot be read" in shown["timeline_error"]
    own_steps = [one for one in readable["timeline"] if one["kind"] != "reject"]
    assert shown["timeline"] == own_steps != readable["timeline"]
    assert (shown["headline"], shown["repairs"]) == (readable["headline"], readable["repairs"])


def test_refused_resend_does_not_use_up_reject(
    page: Page, world: InMemoryStack, rejects: StoredRejects
) -> None:
    name, timed = "2026/11/16/timed", body(run_at="2027-01-01T00:00:00Z")
    rejects.add(name, timed)

    status, refused = resend(page, timed, name=name)

    assert (status, rejects.resends) == (400, {})
    assert "honors no run_at" in refused["error"]
    assert resend(page, body(), name=name)[0] == 200
    assert len(world.outbox.sent) == 1
