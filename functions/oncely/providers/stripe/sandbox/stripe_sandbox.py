"""The sandbox by the name of the side that a test of payments uses."""

from oncely.testing.sandbox.provider_sandbox import ProviderSandbox


class StripeSandbox(ProviderSandbox):
    """`with StripeSandbox() as sandbox:` and point a client at `sandbox.url`."""
