"""The payment providers that an order can use, by plug-in name. One line each."""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from oncely import Provider

if TYPE_CHECKING:
    from oncely.providers.interfaces import PaymentProvider

_PLUGINS: Final = ("oncely.providers.stripe:STRIPE", "oncely.providers.braintree:BRAINTREE")

PAYMENT_PROVIDERS: Final[Mapping[str, Provider["PaymentProvider", Any]]] = {
    plugin.name: plugin for plugin in map(resolve_name, _PLUGINS)
}
# Of an order without the column `payment_provider`.
DEFAULT_PROVIDER: Final = "stripe"
