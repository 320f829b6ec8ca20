"""The fingerprint: equal for equal business values, different for different ones."""

from collections.abc import Mapping
from decimal import Decimal
from math import inf, nan

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oncely.core.keys import fingerprint

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
VALUES = st.dictionaries(st.text(), PLAIN, max_size=4)
# DynamoDB keeps 38 digits.
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9)


def test_stored_fingerprint_stays_comparable() -> None:
    values = {"order_id": "18452", "amount": 1250, "currency": "eur", "attempt": 1}
    assert fingerprint(values) == "04c86b4b55703517399d28872160f3db"


@given(values=VALUES)
def test_order_of_names_does_not_matter(values: dict[str, object]) -> None:
    assert fingerprint(dict(reversed(values.items()))) == fingerprint(values)


@pytest.mark.parametrize("spelling", [1250.0, Decimal(1250), Decimal("1250.00"), Decimal("1.25E3")])
def test_spelling_of_whole_number_does_not_matter(spelling: object) -> None:
    assert fingerprint({"amount": spelling}) == fingerprint({"amount": 1250})


@pytest.mark.parametrize("spelling", [0.125, Decimal("0.1250"), Decimal("125E-3")])
def test_spelling_of_fraction_does_not_matter(spelling: object) -> None:
    assert fingerprint({"rate": spelling}) == fingerprint({"rate": Decimal("0.125")})


@given(one=VALUES, other=VALUES)
def test_different_values_have_different_fingerprints(
    one: dict[str, object], other: dict[str, object]
) -> None:
    # In Python, True equals 1, but not in a message and its fingerprint.
    assume(repr(_sorted(one)) != repr(_sorted(other)))
    assert fingerprint(one) != fingerprint(other)


@given(one=NUMBERS, other=NUMBERS)
def test_numbers_differ_exactly_when_their_values_differ(one: Decimal, other: Decimal) -> None:
    assert (fingerprint({"n": one}) == fingerprint({"n": other})) is (one == other)


def test_numbers_differing_in_38th_digit_are_distinguished() -> None:
    one, other = (Decimal(f"0.{'1' * 37}{last}") for last in "23")
    assert fingerprint({"n": one}) != fingerprint({"n": other})


@pytest.mark.parametrize("value", [nan, inf, Decimal("NaN"), Decimal("-Infinity"), [nan]])
def test_non_finite_number_is_rejected(value: object) -> None:
    with pytest.raises(TypeError, match="not a number"):
        fingerprint({"amount": value})


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j])
def test_value_without_canonical_form_is_rejected_by_type(value: object) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        fingerprint({"amount": value})


def _sorted(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(inner) for inner in value] if isinstance(value, list) else value
