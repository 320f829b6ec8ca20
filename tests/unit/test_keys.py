"""Job keys: two different jobs never share one, and no id can break one."""

from contextlib import suppress
from urllib.parse import unquote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oncely.core.errors import InvalidKeyError
from oncely.core.keys import (
    MAX_ID_LENGTH,
    MAX_KEY_LENGTH,
    indexable_id,
    is_job_type,
    job_key,
)

# Parts of keys, and texts that could be mistaken for them.
TRICKY = st.text("ab1:%~/ éÉ3A25\x00", min_size=1, max_size=6)
ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        (("18452",), "payment.charge:order_18452"),
        (("18452", 2), "payment.charge:order_18452:2"),
        (("18452:2",), "payment.charge:order_18452%3A2"),
        (("100%",), "payment.charge:order_100%25"),
        (("~18452",), "payment.charge:order_%7E18452"),
        (("Zoë 7",), "payment.charge:order_Zo%C3%AB%207"),
        (("a@b.c+d#e-f_g",), "payment.charge:order_a@b.c+d#e-f_g"),
    ],
)
def test_job_key_is_readable_and_escapes_ambiguous_characters(
    parts: tuple[str | int, ...], key: str
) -> None:
    assert job_key("payment.charge", *parts, prefix="order_") == key


@given(parts=st.lists(TRICKY, min_size=1, max_size=3))
def test_job_key_contains_each_id_completely(parts: list[str]) -> None:
    assume(all(part.strip() for part in parts))
    key = job_key("sync.contact", *parts)
    assert [unquote(part) for part in key.split(":")[1:]] == parts


@given(one=st.lists(TRICKY, min_size=1, max_size=3), other=st.lists(TRICKY, min_size=1, max_size=3))
def test_different_jobs_never_share_job_key(one: list[str], other: list[str]) -> None:
    assume(one != other and all(part.strip() for part in one + other))
    assert job_key("sync.contact", *one) != job_key("sync.contact", *other)


@given(parts=st.lists(ANY_TEXT, max_size=4), job_type=ANY_TEXT)
def test_any_text_makes_job_key_or_is_rejected(parts: list[str], job_type: str) -> None:
    for kind in (job_type, "sync.contact"):
        with suppress(InvalidKeyError):
            key = job_key(kind, *parts)
            assert key.isascii()
            assert len(key) <= MAX_KEY_LENGTH


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((), "at least one"),
        (("",), "is empty"),
        ((" \t\n",), "is empty"),
        (("18452", ""), "is empty"),
        (("x" * (MAX_ID_LENGTH + 1),), "129 characters, 128 are allowed"),
        (("x" * MAX_ID_LENGTH, "x" * MAX_ID_LENGTH), "200 are allowed"),
        (("é" * 40,), "200 are allowed"),
        (("\ud800",), "lone surrogate"),
    ],
)
def test_invalid_id_is_rejected_with_reason(parts: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidKeyError, match=why):
        job_key("payment.charge", *parts)


def test_longest_allowed_id_is_accepted() -> None:
    assert job_key("payment.charge", "x" * MAX_ID_LENGTH).endswith("x" * MAX_ID_LENGTH)


def test_longest_allowed_job_key_is_accepted() -> None:
    rest = MAX_KEY_LENGTH - len("payment.charge:") - MAX_ID_LENGTH - len(":")
    parts = ("x" * MAX_ID_LENGTH, "x" * rest)

    assert len(job_key("payment.charge", *parts)) == MAX_KEY_LENGTH
    with pytest.raises(InvalidKeyError, match="201 characters, 200 are allowed"):
        job_key("payment.charge", parts[0], f"{parts[1]}x")


@pytest.mark.parametrize(
    "name", ["payment", "Payment.charge", "payment.", ".charge", "payment:charge", "1.2", "a.b\n"]
)
def test_invalid_job_type_makes_no_job_key(name: str) -> None:
    with pytest.raises(InvalidKeyError, match="is not a valid job type"):
        job_key(name, "18452")
    assert not is_job_type(name)


@pytest.mark.parametrize("name", ["payment.charge", "sync.contact_v2", "a.b.c"])
def test_job_type_is_lower_case_with_dot(name: str) -> None:
    assert is_job_type(name)


@pytest.mark.parametrize(
    ("length", "expected"),
    [(1, True), (MAX_KEY_LENGTH, True), (MAX_KEY_LENGTH + 1, False), (0, False)],
)
def test_business_id_is_findable_if_index_can_hold_it(length: int, *, expected: bool) -> None:
    business_id = "x" * length
    assert indexable_id(business_id) == (business_id if expected else None)
