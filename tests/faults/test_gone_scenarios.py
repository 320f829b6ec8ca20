"""The explorer finds what a contact that leaves or returns would break without its guards."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from oncely.domain.effect_outcomes import BusinessWrite
from oncely.jobs import sync_contact, sync_push
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


def test_late_record_over_tombstone_without_version_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgets_gone(row: Mapping[str, Any], *, fresh: bool) -> datetime | None:
        del fresh
        return newest(row, fresh=True)

    newest = sync_contact._newest_version_time  # noqa: SLF001  # the guard that is removed
    monkeypatch.setattr(sync_contact, "_newest_version_time", forgets_gone)
    script = first_violation(BY_NAME["sync.contact/late-record"], TWO)
    assert_replays(script, "the contact is gone, and its record is stored")


def test_contact_created_again_by_push_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = sync_push._record_snapshot  # noqa: SLF001  # the guard that is removed

    def from_elsewhere(*given: Any) -> sync_push.RecordSnapshot:  # noqa: ANN401  # as they come
        return replace(snapshot(*given), is_from_crm=False)

    monkeypatch.setattr(sync_push, "_record_snapshot", from_elsewhere)
    script = first_violation(BY_NAME["sync.push/gone"], TWO)
    assert_replays(script, "a deleted contact was created again")
