"""The entry point of `oncely` and `python -m oncely.cli`."""

import sys


def main() -> None:
    """Run the command. Without its packages, print how to install them."""
    try:
        from oncely.cli.main import run
    except ModuleNotFoundError as error:
        sys.exit(
            f"Package {error.name} is not installed. Install the command from a clone with "
            '`pipx install --force ".[command]"`.'
        )
    run()


if __name__ == "__main__":
    main()
