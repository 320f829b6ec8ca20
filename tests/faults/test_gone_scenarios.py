"""The explorer finds what a contact that leaves or returns would break without its guards."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from oncely import AlreadyResolved, BusinessWrite, Proceed, Succeeded
from oncely.jobs import sync_contact, sync_push
from oncely.providers.hubspot.crm import HubSpotCrm
from oncely.providers.interfaces import CrmRecord
from oncely.testing import SearchLimits
from tests.faults.test_explorer import BY_NAME, assert_replays, first_violation

TWO = SearchLimits(injections=2, max_violations=1)


def patch_record_write(
    monkeypatch: pytest.MonkeyPatch, weaken: Callable[[BusinessWrite], BusinessWrite]
) -> None:
    write = sync_contact._record_write  # noqa: SLF001  # the guard that is removed

    def weakened(*given: Any, **more: Any) -> BusinessWrite:  # noqa: ANN401  # as they come
        return weaken(write(*given, **more))

    monkeypatch.setattr(sync_contact, "_record_write", weakened)


def test_removal_of_newer_version_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_record_write(monkeypatch, lambda write: replace(write, preconditions=()))
    script = first_violation(BY_NAME["sync.contact/returns"], TWO)
    assert_replays(script, "the contact is back, and its record is removed")


def test_late_fetch_over_tombstone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_record_write(
        monkeypatch, lambda write: replace(write, must_be_new=False, may_create=True)
    )
    script = first_violation(BY_NAME["sync.contact/vanishes"], TWO)
    assert_replays(script, "the contact is gone, and its record is stored")


def test_believed_record_of_message_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    execute = sync_contact.SyncContact.execute

    def believe(self: Any, call: Any) -> Any:  # noqa: ANN401  # as they come
        if (claimed := self.record) is None:
            return execute(self, call)
        found = CrmRecord(
            record_id="1",
            updated_at=datetime.fromisoformat(claimed["updatedAt"]),
            archived=False,
            body=claimed,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HubSpotCrm, "get_contact", lambda *_: found)
            return execute(self, call)

    monkeypatch.setattr(sync_contact.SyncContact, "execute", believe)
    script = first_violation(BY_NAME["sync.contact/forged"], TWO)
    assert_replays(script, "a message replaced the record")


def test_imported_version_pushed_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    precheck = sync_push.SyncPush.precheck

    def push_all(self: Any) -> Any:  # noqa: ANN401  # as they come
        match precheck(self):
            case AlreadyResolved(outcome=Succeeded(result={"imported": True})) as found:
                return Proceed(facts=found.facts, values=found.values or {})
            case found:
                return found

    monkeypatch.setattr(sync_push.SyncPush, "precheck", push_all)
    script = first_violation(BY_NAME["sync.contact/forged"], TWO)
    assert_replays(script, "a message overwrote the contact")


def test_contact_created_again_by_push_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = sync_push._record_snapshot  # noqa: SLF001  # the guard that is removed

    def from_elsewhere(*given: Any) -> sync_push.RecordSnapshot:  # noqa: ANN401  # as they come
        facts = snapshot(*given)
        assert isinstance(facts, sync_push.RecordSnapshot)
        return replace(facts, is_from_crm=False)

    monkeypatch.setattr(sync_push, "_record_snapshot", from_elsewhere)
    script = first_violation(BY_NAME["sync.push/gone"], TWO)
    assert_replays(script, "a deleted contact was created again")
