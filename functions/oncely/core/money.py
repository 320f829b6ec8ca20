"""Money in integer minor units, so that nothing is rounded."""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self

from oncely.core.errors import InvalidMoneyError

# Currencies without two decimals, as payment providers count them: they still take two of UGX and
# ISK, which have none by ISO 4217.
_NO_DECIMALS: Final = frozenset(
    {
        "bif",
        "clp",
        "djf",
        "gnf",
        "jpy",
        "kmf",
        "krw",
        "mga",
        "pyg",
        "rwf",
        "vnd",
        "vuv",
        "xaf",
        "xof",
        "xpf",
    }
)
_THREE_DECIMALS: Final = frozenset({"bhd", "iqd", "jod", "kwd", "lyd", "omr", "tnd"})
_CURRENCY: Final = re.compile(r"[a-z]{3}")


@dataclass(frozen=True)
class Money:
    """An amount in minor units and its currency in lower case: 12.50 EUR is (1250, 'eur')."""

    amount: int
    currency: str

    @classmethod
    def parse(cls, amount: object, currency: object) -> Self:
        """Parse the values of a row or a message. DynamoDB numbers are Decimals."""
        if isinstance(amount, Decimal) and amount.is_finite() and amount == int(amount):
            amount = int(amount)
        if not isinstance(amount, int) or isinstance(amount, bool) or amount <= 0:
            raise InvalidMoneyError(
                f"an amount is a whole number of minor units above 0, not {amount!r}"
            )
        if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency.lower()):
            raise InvalidMoneyError(f"a currency is three letters, such as 'eur', not {currency!r}")
        return cls(amount, currency.lower())

    @classmethod
    def from_decimal(cls, amount: Decimal, currency: str) -> Self:
        """Parse an amount in major units, from a provider that uses decimals."""
        return cls(int(amount.scaleb(_decimals(currency))), currency)

    @property
    def decimal_text(self) -> str:
        """The amount in major units, such as "12.50", for providers that take decimals."""
        decimals = _decimals(self.currency)
        return f"{Decimal(self.amount).scaleb(-decimals):.{decimals}f}"

    def __str__(self) -> str:
        return f"{self.decimal_text} {self.currency.upper()}"


def _decimals(currency: str) -> int:
    if currency in _NO_DECIMALS:
        return 0
    return 3 if currency in _THREE_DECIMALS else 2
