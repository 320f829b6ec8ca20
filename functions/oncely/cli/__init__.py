"""The `oncely` command. Never deployed to Lambda."""
