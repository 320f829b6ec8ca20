"""A secret is an API key, or a mistake that is reported before anything is sent."""

from typing import Any

import pytest

from oncely.core.errors import NotConfiguredError
from oncely.ports import cached_secret_reader


class FakeSecretsClient:
    def __init__(self, value: str) -> None:
        self.value = value
        self.reads = 0

    def get_secret_value(self, **_: object) -> dict[str, str]:
        self.reads += 1
        return {"SecretString": self.value}


def read_secret(value: str) -> str:
    client: Any = FakeSecretsClient(value)
    return cached_secret_reader(client)("stripe", "the secret 'stripe'")


def test_api_key_is_reread_after_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.time", lambda: now)
    client: Any = FakeSecretsClient("sk_test_1")
    read = cached_secret_reader(client)
    keys = []
    for now in (1000.0, 1299.0, 1301.0):  # noqa: B007  # the clock that the reader sees
        keys.append(read("stripe", "the secret 'stripe'"))
        client.value = "sk_test_2"

    assert keys == ["sk_test_1", "sk_test_1", "sk_test_2"]
    assert client.reads == 2


def test_invalid_secret_is_not_cached() -> None:
    client: Any = FakeSecretsClient("")
    read = cached_secret_reader(client)
    with pytest.raises(NotConfiguredError):
        read("stripe", "the secret 'stripe'")
    client.value = "sk_test_1"

    assert read("stripe", "the secret 'stripe'") == "sk_test_1"


@pytest.mark.parametrize("value", ["sk_test_1", "sk_test_1\n", "  sk_test_1 "])
def test_api_key_is_read_without_surrounding_space(value: str) -> None:
    assert read_secret(value) == "sk_test_1"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *((one, "store the API key again") for one in ("sk_test\n_1", "sk_test\r_1")),
        *((one, "store the API key again") for one in ("sk_test\t_1", "sk_tést_1")),
        ("sk_test_\u200b1", "store the API key again"),
        *((one, "empty") for one in ("", " \n")),
    ],
)
def test_invalid_or_empty_secret_is_misconfiguration(value: str, error: str) -> None:
    with pytest.raises(NotConfiguredError, match=error):
        read_secret(value)
