"""Braintree's SDK with one connection and one deadline per request, and without retries."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from oncely.core.errors import NotConfiguredError
from oncely.plugins.provider import INTERNET, UNGATED, Network, RequestGate
from oncely.plugins.request_deadline import CONNECT_TIMEOUT, request_deadline
from oncely.plugins.requests_session import deadline_session
from oncely.providers.braintree.plugin import PROFILE, BraintreeSettings
from oncely.providers.braintree.sdk import BraintreeGateway, Configuration, Environment, Http


class _CustomEnvironment(Environment):  # type: ignore[misc]  # the SDK has no types
    """The environment at `api_base`; the SDK allows TLS on port 443 only."""

    def __init__(self, api_base: str) -> None:
        address = urlsplit(api_base)
        port = address.port or (443 if address.scheme == "https" else 80)
        super().__init__("custom", address.hostname or "", str(port), "", False, None)  # noqa: FBT003  # the SDK's signature
        self._scheme = address.scheme

    @property
    def protocol(self) -> str:
        return f"{self._scheme}://"


def parse_api_key(api_key: str) -> tuple[str, str]:
    """Return the public and the private key of a secret."""
    public, _, private = api_key.partition(":")
    if not public or not private:
        raise NotConfiguredError(
            "the API key of Braintree must have the form <public key>:<private key>: put it in "
            "again"
        )
    return public, private


def connect_gateway(
    api_key: str,
    settings: BraintreeSettings,
    *,
    gate: RequestGate = UNGATED,
    network: Network = INTERNET,
    request_timeout: timedelta = PROFILE.request_timeout,
) -> Any:  # noqa: ANN401  # the SDK has no types
    """Build the SDK's gateway."""
    public, private = parse_api_key(api_key)
    environment = settings.api_base and _CustomEnvironment(settings.api_base)
    seconds = request_timeout.total_seconds()

    class OneRequestHttp(Http):  # type: ignore[misc]  # the SDK has no types
        """Sends a request once, on its own connection, through the gate, within a deadline."""

        def http_do(
            self, http_verb: str, path: str, headers: Mapping[str, str], request_body: str
        ) -> list[Any]:
            # The SDK's name for the trusted certificates; a custom address uses the usual ones.
            trusted = self.environment.ssl_certificate or True
            with (
                gate.request() as gated,
                deadline_session(network) as session,
                request_deadline(request_timeout, network),
            ):
                response = session.request(
                    http_verb,
                    path,
                    headers=dict(headers),
                    data=request_body,
                    verify=trusted,
                    timeout=(min(CONNECT_TIMEOUT.total_seconds(), seconds), seconds),
                    allow_redirects=False,
                )
                gated.status = response.status_code
                return [response.status_code, response.text]

    configuration = Configuration(
        environment=environment or settings.environment,
        merchant_id=settings.merchant_id,
        public_key=public,
        private_key=private,
        http_strategy=OneRequestHttp,
        timeout=seconds,
    )
    return BraintreeGateway(configuration)
