"""Money: only whole minor units of a currency are valid."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.core.errors import InvalidMoneyError
from oncely.core.money import Money

ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals(-(10**38), 10**38)
    | st.text()
    | st.lists(st.integers())
)


@pytest.mark.parametrize(
    ("amount", "currency", "printed"),
    [
        (1250, "eur", "12.50 EUR"),
        (5, "EUR", "0.05 EUR"),
        (1250, "jpy", "1250 JPY"),
        (1250, "kwd", "1.250 KWD"),
        (500, "ugx", "5.00 UGX"),  # what Stripe takes for an amount of 500
        (500, "isk", "5.00 ISK"),
        (Decimal("1250.00"), "Eur", "12.50 EUR"),
        (10**15, "usd", "10000000000000.00 USD"),
    ],
)
def test_money_prints_major_units_and_currency(amount: object, currency: str, printed: str) -> None:
    assert str(Money.parse(amount, currency)) == printed


@pytest.mark.parametrize(
    "amount",
    [12.5, 1250.0, True, 0, -1, "1250", None, [1250], Decimal("12.5"), Decimal(0)]
    + [Decimal(odd) for odd in ("NaN", "sNaN", "Infinity", "-Infinity")],
)
def test_amount_is_invalid_unless_whole_and_positive(amount: object) -> None:
    with pytest.raises(InvalidMoneyError, match="whole number of minor units above 0"):
        Money.parse(amount, "eur")


@pytest.mark.parametrize("currency", ["", "eu", "euro", "e r", "eur\n", "12a", "€", None, 978])
def test_currency_is_invalid_unless_three_letters(currency: object) -> None:
    with pytest.raises(InvalidMoneyError, match="three letters"):
        Money.parse(1250, currency)


@given(amount=ANYTHING, currency=ANYTHING)
def test_any_value_is_money_or_raises_invalid_money(amount: object, currency: object) -> None:
    try:
        money = Money.parse(amount, currency)
    except InvalidMoneyError:
        return

    assert type(money.amount) is int
    assert money.amount == amount
    assert money.amount > 0


@given(amount=st.integers(1, 10**12))
def test_stored_decimal_amount_equals_original_money(amount: int) -> None:
    assert Money.parse(Decimal(amount), "EUR") == Money.parse(amount, "eur")
