"""Job keys: two different jobs never share one, and no id can break one."""

from contextlib import suppress
from urllib.parse import unquote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oncely.domain.errors import InvalidKeyError
from oncely.domain.keys import MAX_KEY, MAX_PART, findable, is_job_type, job_key, token_key

# What keys are made of, and what might be mistaken for it.
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
def test_a_key_is_readable_and_escapes_what_could_be_mistaken(
    parts: tuple[str | int, ...], key: str
) -> None:
    assert job_key("payment.charge", *parts, prefix="order_") == key


def test_a_producers_token_is_marked_as_one() -> None:
    assert token_key("sync.import", "monday run") == "sync.import:~monday%20run"


@given(parts=st.lists(TRICKY, min_size=1, max_size=3))
def test_a_key_holds_each_of_its_ids_whole(parts: list[str]) -> None:
    assume(all(part.strip() for part in parts))

    key = job_key("sync.contact", *parts)

    assert [unquote(part) for part in key.split(":")[1:]] == parts


@given(
    one=st.lists(TRICKY, min_size=1, max_size=3),
    other=st.lists(TRICKY, min_size=1, max_size=3),
)
def test_two_different_jobs_never_share_a_key(one: list[str], other: list[str]) -> None:
    assume(one != other and all(part.strip() for part in one + other))

    assert job_key("sync.contact", *one) != job_key("sync.contact", *other)


@given(parts=st.lists(TRICKY, min_size=1, max_size=3), token=TRICKY)
def test_a_token_never_shares_a_key_with_an_id(parts: list[str], token: str) -> None:
    assume(token.strip() and all(part.strip() for part in parts))

    assert token_key("sync.contact", token) != job_key("sync.contact", *parts)


@given(parts=st.lists(ANY_TEXT, max_size=4), token=ANY_TEXT, job_type=ANY_TEXT)
def test_any_text_makes_a_key_or_is_refused_as_one(
    parts: list[str], token: str, job_type: str
) -> None:
    for kind in (job_type, "sync.contact"):
        with suppress(InvalidKeyError):
            assert len(job_key(kind, *parts)) <= MAX_KEY
        with suppress(InvalidKeyError):
            assert token_key(kind, token).isascii()


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((), "at least one"),
        (("",), "is empty"),
        ((" \t\n",), "is empty"),
        (("18452", ""), "is empty"),
        (("x" * (MAX_PART + 1),), "129 characters, 128 are allowed"),
        (("x" * MAX_PART, "x" * MAX_PART), "200 are allowed"),
        (("é" * 40,), "200 are allowed"),
        (("\ud800",), "half of a character"),
    ],
)
def test_an_id_that_cannot_be_part_of_a_key_is_refused_with_the_reason(
    parts: tuple[str, ...], why: str
) -> None:
    with pytest.raises(InvalidKeyError, match=why):
        job_key("payment.charge", *parts)


def test_the_longest_id_allowed_is_taken() -> None:
    assert job_key("payment.charge", "x" * MAX_PART).endswith("x" * MAX_PART)


def test_the_longest_key_allowed_is_taken() -> None:
    rest = MAX_KEY - len("payment.charge:") - MAX_PART - len(":")
    parts = ("x" * MAX_PART, "x" * rest)

    assert len(job_key("payment.charge", *parts)) == MAX_KEY
    with pytest.raises(InvalidKeyError, match="201 characters, 200 are allowed"):
        job_key("payment.charge", parts[0], f"{parts[1]}x")


@pytest.mark.parametrize(
    "name", ["payment", "Payment.charge", "payment.", ".charge", "payment:charge", "1.2", "a.b\n"]
)
def test_a_name_that_is_no_job_type_makes_no_key(name: str) -> None:
    with pytest.raises(InvalidKeyError, match="is no job type"):
        job_key(name, "18452")

    assert not is_job_type(name)


@pytest.mark.parametrize("name", ["payment.charge", "sync.contact_v2", "a.b.c"])
def test_a_job_type_is_lower_case_with_a_dot(name: str) -> None:
    assert is_job_type(name)


@pytest.mark.parametrize(
    ("length", "expected"), [(1, True), (MAX_KEY, True), (MAX_KEY + 1, False), (0, False)]
)
def test_business_id_is_findable_if_an_index_can_hold_it(length: int, *, expected: bool) -> None:
    business_id = "x" * length

    assert findable(business_id) == (business_id if expected else None)
