"""Rejected messages: the job of each, and whether it was resent."""

from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest

from oncely.operate.rejects import RejectArchive
from tests.conformance.archive_harness import ArchiveHarness
from tests.support.fakes import START

KEY = "payment.charge:order_1"
DAY = f"{START:%Y/%m/%d}"
Save = Callable[[str, str | None], None]


@pytest.fixture
def archive(bucket: ArchiveHarness) -> tuple[RejectArchive, Save]:
    stored, times = RejectArchive(bucket.objects), count()

    def save(name: str, key: str | None) -> None:
        reject = {"body": "{}", "reason": "no", "queue": "payments"}
        named = {} if key is None else {"job_key": key}
        stored.save_reject(name, reject | named, at=START + timedelta(seconds=next(times)))

    return stored, save


def test_rejects_are_found_by_their_job(archive: tuple[RejectArchive, Save]) -> None:
    rejects, save = archive
    save("a", KEY)
    save("b", "payment.charge:order_2")
    save("c", None)
    save("0", KEY)

    found = rejects.job_rejects(KEY, limit=10)

    assert [one.name for one in found] == [f"{DAY}/0", f"{DAY}/a"]
    assert [one.name for one in rejects.job_rejects(KEY, limit=1)] == [f"{DAY}/0"]
    assert rejects.job_rejects("payment.charge:none", limit=10) == []


def test_resend_is_reserved_once(archive: tuple[RejectArchive, Save]) -> None:
    rejects, save = archive
    names = [f"{DAY}/{name}" for name in ("a", "ab")]
    for name in ("a", "ab"):
        save(name, KEY)

    assert rejects.reserve_resend(names[1], actor="operator:ada")
    assert not rejects.reserve_resend(names[1], actor="operator:bob")

    assert rejects.resent(names) == {names[1]}
    assert rejects.resent(names[1:]) == {names[1]}
    assert rejects.resent(names[:1]) == frozenset(), "its name is the beginning of another"
    assert rejects.resent([]) == frozenset()
