"""Runs the provider sandbox as a process: `python -m oncely.testing.sandbox --port 12111`."""

import argparse
import signal
import threading
from datetime import timedelta

from oncely.testing.sandbox.provider_sandbox import ProviderSandbox


def main() -> None:
    """Serve until SIGINT or SIGTERM. The first line printed is the address."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--port", type=int, default=0, help="port to listen on (default: a free one)"
    )
    parser.add_argument("--ignore-keys", action="store_true", help="ignore idempotency keys")
    parser.add_argument(
        "--search-lag", type=float, default=0.0, help="seconds until a change is searchable"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random faults")
    options = parser.parse_args()
    ended = threading.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: ended.set())
    with ProviderSandbox(
        port=options.port,
        honors_idempotency_keys=not options.ignore_keys,
        search_lag=timedelta(seconds=options.search_lag),
        seed=options.seed,
    ) as sandbox:
        print(sandbox.url, flush=True)  # who started it reads the address
        ended.wait()


if __name__ == "__main__":
    main()
