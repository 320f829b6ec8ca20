"""A rejected message is edited and resent from the page: by operators, once, and audited."""

import json
from typing import Any

import pytest

from oncely.aws.s3_archive import S3Archive
from oncely.domain.masking import mask_json, unmask_json
from oncely.operate.rejects import RejectedMessages, ResentBefore
from tests.support.fakes import FakeMessageSource, MemoryRejects, UnreachableS3
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.worker import BatchHarness, make_delivery
from tests.unit.test_access_log import Lines, Page
from tests.unit.test_bulk_page import log

__all__ = ["log"]
ROUTE = "POST /api/rejects/resend"
NAME = "2026/11/16/4f7b"
KEY = "payment.charge:order_18452"


def body(**changes: object) -> str:
    return json.dumps({"job": "payment.charge", "v": 1, "order_id": "18452", **changes})


@pytest.fixture
def page(world: InMemoryStack, monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(world, monkeypatch)


@pytest.fixture
def rejects(page: Page) -> MemoryRejects:
    stored: MemoryRejects = page.app.ports.stored_rejects  # type: ignore[assignment]  # a fake
    stored.add(NAME, body(amount="1250"))
    return stored


def resend(page: Page, message: str, **more: Any) -> tuple[int, Any]:  # noqa: ANN401  # JSON
    asked = {"name": NAME, "message": message, "seen": 0, "reason": "a typo", **more}
    answer = page.call(ROUTE, body=json.dumps(asked))
    return answer["statusCode"], json.loads(answer["body"])


def test_edited_message_is_sent_in_the_name_of_the_operator(
    page: Page, world: InMemoryStack, rejects: MemoryRejects, log: Lines
) -> None:
    status, sent = resend(page, body(amount=1250))

    assert (status, sent["job_key"], sent["created"]) == (200, KEY, True)
    assert [json.loads(one) for one in world.outbox.sent] == [json.loads(body(amount=1250))]
    first = world.job(KEY).evidence[0]
    assert first.actor == "operator:ada@example.com"
    assert first.reason == f"resent from the rejected message {NAME}: a typo"
    assert rejects.resends == {(NAME, 1): "operator:ada@example.com"}
    logged = [line for line in map(json.loads, log.all) if line["message"] == "reject resent"]
    assert [(one["reject"], one["job_key"]) for one in logged] == [(NAME, KEY)]


def test_same_reject_is_not_resent_twice_by_accident(
    page: Page, world: InMemoryStack, rejects: MemoryRejects
) -> None:
    """Other values would make a second job, which no key prevents."""
    assert resend(page, body())[0] == 200
    world.add_order("2")

    status, refused = resend(page, body(order_id="2"))
    again, _ = resend(page, body(order_id="2"), seen=refused["resends"])

    assert (status, refused["resends"], again) == (409, 1, 200)
    assert "already resent once" in refused["error"]
    assert sorted(world.store.jobs) == ["payment.charge:order_18452", "payment.charge:order_2"]
    assert len(rejects.resends) == 2


def test_race_of_two_operators_sends_one_message(
    page: Page, world: InMemoryStack, rejects: MemoryRejects
) -> None:
    """Both saw it as never resent. The one that loses the conditional write sends nothing."""

    class Late(MemoryRejects):
        def reserve_resend(self, name: str, number: int, *, actor: str) -> bool:
            rejects.reserve_resend(name, number, actor="operator:bob")
            return rejects.reserve_resend(name, number, actor=actor)

    late = Late(stored=rejects.stored)
    service: RejectedMessages = world.app(stored_rejects=late).rejected_messages

    lost = service.resend(NAME, json.loads(body()), actor="operator:ada", seen=0)

    assert lost == ResentBefore(resends=1)
    assert (world.outbox.sent, world.store.jobs) == ([], {})


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        (body(amount="x"), "amount"),
        (body(customer_id="e***@example.com"), "type it in full"),
    ],
)
def test_invalid_message_is_refused_and_reserves_nothing(
    page: Page, world: InMemoryStack, rejects: MemoryRejects, message: str, error: str
) -> None:
    status, answer = resend(page, message)
    assert (status, error in answer["error"]) == (400, True), answer
    assert (world.outbox.sent, rejects.resends) == ([], {})


def test_conflict_with_the_existing_job_is_refused(
    page: Page, world: InMemoryStack, rejects: MemoryRejects
) -> None:
    world.run(charge_message(amount=1250))
    status, answer = resend(page, body(amount=9900))
    assert (status, world.outbox.sent) == (409, [])
    assert "Amount is 1250 in the existing job, 9900 here" in answer["error"]


@pytest.mark.usefixtures("rejects")
def test_support_agent_cannot_resend(page: Page, world: InMemoryStack) -> None:
    page.directory.members["ada@example.com"] = {"support"}
    asked = {"name": NAME, "message": body(), "seen": 0, "reason": "x"}
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
    page: Page, world: InMemoryStack, rejects: MemoryRejects
) -> None:
    world.run(charge_message())
    rejects.of_jobs[KEY] = [NAME]

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
    page: Page, world: InMemoryStack, rejects: MemoryRejects
) -> None:
    resend(page, body())
    rejects.of_jobs[KEY] = [NAME]
    readable = json.loads(page.call("GET /api/job", key=KEY)["body"])
    client: Any = UnreachableS3()
    page.app = world.app(stored_rejects=S3Archive(client, "archive"))

    answer = page.call("GET /api/job", key=KEY)
    shown = json.loads(answer["body"])

    assert (answer["statusCode"], readable["timeline_error"]) == (200, None)
    assert "rejected messages of this job, if any, cannot be read" in shown["timeline_error"]
    own_steps = [one for one in readable["timeline"] if one["kind"] != "reject"]
    assert shown["timeline"] == own_steps != readable["timeline"]
    assert (shown["headline"], shown["repairs"]) == (readable["headline"], readable["repairs"])
