"""What the plug-in of any provider must declare, so that everything local is built from it."""

import pytest

from oncely.contracts.job import providers_of
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.plugins.provider import AnyProvider, ProviderAccess
from oncely.testing.sandbox import Sandbox, sandbox_type
from oncely.testing.sandbox.faults import REFUSAL_STATUSES
from oncely.testing.sandbox.http_messages import SandboxRequest, now

pytestmark = pytest.mark.parametrize(
    "plugin", providers_of(SHIPPED_JOBS), ids=lambda plugin: plugin.name
)


def test_every_call_of_the_sandbox_is_a_method_of_the_client(plugin: AnyProvider) -> None:
    sandbox = sandbox_type(plugin)
    calls = {sandbox.hanging_call or next(iter(sandbox.requests))}
    calls |= {call for _, call, _ in sandbox.fault_rates}

    assert sandbox.fault_rates
    settings = {plugin.env_var(name): value for name, value in sandbox.settings.items()}
    access = ProviderAccess(
        settings=plugin.read_settings(settings),
        api_key=sandbox.api_key,
        new_aws_client=lambda *_: None,
    )
    assert calls <= sandbox.requests.keys() <= set(dir(plugin.connect(access)))


def test_local_settings_and_key_are_valid(plugin: AnyProvider) -> None:
    sandbox = sandbox_type(plugin)
    settings = {plugin.env_var(name): value for name, value in sandbox.settings.items()}

    assert sandbox.settings.keys() <= plugin.settings_type.model_fields.keys()
    assert plugin.is_configured(plugin.read_settings(settings))
    assert bool(sandbox.api_key) == plugin.has_api_key
    assert sandbox.api_key.startswith(plugin.api_key_prefixes)


def test_sandbox_serves_its_requests_alone(plugin: AnyProvider) -> None:
    with Sandbox(providers_of(SHIPPED_JOBS)) as sandbox:
        part = sandbox.providers[plugin.name]
        paths = [one["path"].replace("*", "1") for one in part.requests.values()]
        serving = {
            name
            for name, one in sandbox.providers.items()
            for path in paths
            if path.startswith(one.path_prefix)
        }
        request = SandboxRequest("POST", paths[0], now())
        errors = [
            part.error_response(request, status=status).status
            for status in (*REFUSAL_STATUSES.values(), 500)
        ]

    assert serving == {plugin.name}
    assert all(status >= 400 for status in errors)
    assert list(part.ledger.effects()) == []
