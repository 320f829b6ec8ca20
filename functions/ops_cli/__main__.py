"""`python -m ops_cli` is `oncely`."""

from ops_cli.main import run

run()
